#include "tests/sim/processes.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/status/initial_status.h"
#include "common/contract/status/termination_message.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;

constexpr int kSigterm = 15;
constexpr int kSigkill = 9;

EnvironmentMap VariablesOf(const Json& container) {
  EnvironmentMap variables;
  for (const Json& variable : container.value("env", Json::array())) {
    variables[variable.at("name").get<std::string>()] = variable.value("value", std::string());
  }
  return variables;
}

// What the runtime of a command leaves when it holds an end no longer.
std::string WordsOfHeld(const Processes::Process& process, int code) {
  TerminationMessage message;
  message.outcome = ClassifyExit(code, 0, "").outcome;
  message.relaunches = process.relaunches;
  return EncodeTerminationMessage(message);
}

// Whether a pod that has ended so could be better off with its programs started again in it.
bool IsHoldable(const ProcessEnd& end) {
  return end.code != kExitCannotExecute && end.code != kExitNotFound && end.reason != "OOMKilled";
}

}  // namespace

Status Processes::Start(const std::string& pod_uid,
                        const std::string& node,
                        const Json& container) {
  LOCKSTEP_ASSIGN_OR_RETURN(WorkerEnvironment environment,
                            ParseEnvironment(VariablesOf(container)));
  Process process;
  process.pod_uid = pod_uid;
  process.node = node;
  process.is_training = !environment.training.empty();
  process.epoch = environment.epoch;
  process.control_counter = environment.control_counter;
  process.environment = std::move(environment);
  process.phase_since = context_->now;
  processes_[pod_uid] = std::move(process);
  return OkStatus();
}

void Processes::Stop(const std::string& pod_uid, Duration grace) {
  const auto found = processes_.find(pod_uid);
  if (found != processes_.end() && IsAlive(found->second)) {
    const TimePoint by = context_->now + grace;
    found->second.stop_by = std::min(found->second.stop_by.value_or(by), by);
  }
}

void Processes::End(const std::string& pod_uid, ProcessEnd end) {
  const auto found = processes_.find(pod_uid);
  if (found != processes_.end() && IsAlive(found->second)) {
    context_->Tell("process of " + found->second.environment.pod + " ends with " +
                   std::to_string(end.code) + " " + end.reason);
    found->second.end = std::move(end);
    found->second.is_frozen = false;
  }
}

void Processes::Fail(const std::string& pod_uid, ProcessEnd end) {
  const auto found = processes_.find(pod_uid);
  if (found == processes_.end() || !IsAlive(found->second)) {
    return;
  }
  Process& process = found->second;
  const bool is_held = process.environment.hold.count() > 0 && !process.held.has_value() &&
                       !process.stop_by.has_value() && IsHoldable(end);
  if (!is_held) {
    // A held pod that ends as its program did holds that no longer.
    const bool lets_go = process.held.has_value() && process.held->code == end.code;
    End(pod_uid, lets_go ? *process.held : std::move(end));
    return;
  }
  context_->Tell("program of " + process.environment.pod + " ends with " +
                 std::to_string(end.code) + ", and is held");
  context_->Count("a program whose end is held");
  end.message = WordsOfHeld(process, end.code);
  process.held = std::move(end);
  process.held_since = context_->now;
  process.is_frozen = false;
}

// Nobody has it started again in time: the pod ends as it would have at once.
void Processes::RunHeld(Process* process) {
  if (context_->now - process->held_since >= process->environment.hold) {
    const bool is_halted = process->held->code == kExitSuccess;
    const ProcessEnd in_vain{kExitRetryable, "Error", WordsOfHeld(*process, kExitRetryable)};
    End(process->pod_uid, is_halted ? in_vain : *process->held);
  }
}

void Processes::Finish(Process* process) {
  const WorkerEnvironment& environment = process->environment;
  finished_.insert({environment.job_uid, environment.attempt, *environment.rank});
  for (Process* peer : PeersOf(*process)) {
    peer->finished.insert(*environment.rank);
  }
  // The trainer says that it trained to the end; a program of the user's says nothing.
  TerminationMessage message;
  message.outcome = Outcome::kSuccess;
  message.last_step = Step(process->step);
  End(process->pod_uid,
      {kExitSuccess, "Completed", process->is_training ? EncodeTerminationMessage(message) : ""});
}

void Processes::Freeze(const std::string& pod_uid) {
  const auto found = processes_.find(pod_uid);
  if (found != processes_.end() && IsAlive(found->second)) {
    context_->Tell("process of " + found->second.environment.pod + " freezes");
    found->second.is_frozen = true;
  }
}

void Processes::ThawUnmissed() {
  for (auto& [uid, process] : processes_) {
    const std::vector<Process*> peers = PeersOf(process);
    const bool is_missed =
        process.is_training && std::any_of(peers.begin(), peers.end(), [&](const Process* peer) {
          return IsAlive(*peer) && !peer->is_frozen;
        });
    process.is_frozen = process.is_frozen && is_missed;
  }
}

const Processes::Process* Processes::Find(const std::string& pod_uid) const {
  const auto found = processes_.find(pod_uid);
  return found == processes_.end() ? nullptr : &found->second;
}

void Processes::Run() {
  std::vector<std::string> uids;
  for (const auto& [uid, process] : processes_) {
    uids.push_back(uid);
  }
  for (const std::string& uid : uids) {
    Process& process = processes_.at(uid);
    if (IsAlive(process)) {
      RunOne(&process);
    }
  }
}

void Processes::RunOne(Process* process) {
  if (process->stop_by.has_value()) {
    const bool is_over = *process->stop_by <= context_->now;
    if (is_over) {
      End(process->pod_uid, {kExitSignalBase + kSigkill, "Error"});
    } else if (process->held.has_value() && process->held->code != kExitSuccess) {
      End(process->pod_uid, *process->held);
    } else if (!process->is_frozen && context_->Happens(3)) {
      // Many a program saves what it has and says that all is well.
      const bool is_polite = !process->is_training && context_->Happens(2);
      if (is_polite && process->environment.rank == 0) {
        context_->Count("a worker 0 that exits 0 on SIGTERM");
      }
      End(process->pod_uid,
          is_polite ? ProcessEnd{kExitSuccess, "Completed"}
                    : ProcessEnd{kExitSignalBase + kSigterm, "Error"});
    }
    return;
  }
  if (process->is_frozen || !process->environment.rank.has_value()) {
    return;
  }
  if (process->is_training) {
    RunTraining(process);
  } else if (process->held.has_value()) {
    RunHeld(process);
  } else {
    RunCommand(process);
  }
}

int64_t Processes::StepsOf(const Process& process) const {
  const auto known = steps_by_job.find(process.environment.job_uid);
  return known == steps_by_job.end() ? steps_total : known->second;
}

void Processes::Enter(Process* process, Phase phase) {
  process->phase = phase;
  process->phase_since = context_->now;
}

// All other processes of the same attempt, dead ones too.
std::vector<Processes::Process*> Processes::PeersOf(const Process& process) {
  std::vector<Process*> peers;
  for (auto& [uid, other] : processes_) {
    if (uid != process.pod_uid && other.environment.job_uid == process.environment.job_uid &&
        other.environment.attempt == process.environment.attempt &&
        other.environment.rank.has_value()) {
      peers.push_back(&other);
    }
  }
  return peers;
}

bool Processes::CanHear(const Process& a, const Process& b) const {
  const bool is_connected =
      a.node == b.node || (cut_off.count(a.node) == 0 && cut_off.count(b.node) == 0);
  return IsAlive(b) && !b.is_frozen && is_connected;
}

void Processes::RunTraining(Process* process) {
  for (const Process* peer : PeersOf(*process)) {
    const bool is_newer = peer->environment.rank == process->environment.rank &&
                          peer->environment.incarnation > process->environment.incarnation;
    if (is_newer && CanHear(*process, *peer)) {
      End(process->pod_uid, {kExitSuperseded, "Error"});
      return;
    }
  }
  Listen(process);
  if (process->phase == Phase::kStarting) {
    Enter(process, Phase::kRendezvous);
  } else if (process->phase == Phase::kRendezvous) {
    Meet(process);
  } else {
    Train(process);
  }
}

// Opens connections to whoever is there, and notes which have closed or fallen silent.
void Processes::Listen(Process* process) {
  std::map<std::pair<int, Incarnation>, const Process*> peers;
  for (const Process* peer : PeersOf(*process)) {
    const int rank = *peer->environment.rank;
    const Incarnation incarnation = peer->environment.incarnation;
    peers[{rank, incarnation}] = peer;
    const auto link = process->links.find(rank);
    const bool is_newest = link == process->links.end() || link->second.incarnation <= incarnation;
    if (rank != *process->environment.rank && is_newest && CanHear(*process, *peer)) {
      process->links[rank] = {incarnation, false, std::nullopt};
    }
  }
  for (auto& [rank, link] : process->links) {
    const auto peer = peers.find({rank, link.incarnation});
    const bool is_there = peer != peers.end();
    // A closed connection tells only whom the end of it reaches.
    const bool is_cut =
        is_there && cut_off.count(peer->second->node) > 0 && peer->second->node != process->node;
    link.is_lost = !is_there || (!IsAlive(*peer->second) && !is_cut);
    const bool is_mute = is_there && !link.is_lost && !CanHear(*process, *peer->second);
    if (is_mute && !link.silent_since.has_value()) {
      link.silent_since = context_->now;
    }
  }
}

// Whoever can hear each other and is not known to be gone meets at the highest epoch among them,
// when every rank is there.
void Processes::Meet(Process* process) {
  std::map<int, Process*> by_rank = {{*process->environment.rank, process}};
  Epoch epoch = process->epoch;
  for (Process* peer : PeersOf(*process)) {
    const int rank = *peer->environment.rank;
    const bool is_known_gone = process->gone.count({rank, peer->environment.incarnation}) > 0;
    if (!CanHear(*process, *peer) || is_known_gone || peer->stop_by.has_value()) {
      continue;
    }
    Process*& slot = by_rank[rank];
    if (slot == nullptr || slot->environment.incarnation < peer->environment.incarnation) {
      slot = peer;
    }
    epoch = std::max(epoch, peer->epoch);
  }
  process->epoch = epoch;
  const bool is_complete = static_cast<int>(by_rank.size()) == process->environment.world_size &&
                           std::all_of(by_rank.begin(), by_rank.end(), [](const auto& member) {
                             return member.second->phase == Phase::kRendezvous;
                           });
  if (!is_complete) {
    const bool is_over =
        context_->now - process->phase_since > process->environment.rendezvous_timeout;
    if (is_over) {
      End(process->pod_uid, {kExitRetryable, "Error"});
    }
    return;
  }
  int64_t step = 0;
  std::map<int, Incarnation> members;
  for (const auto& [rank, member] : by_rank) {
    step = std::max(step, member->step);
    members[rank] = member->environment.incarnation;
  }
  for (const auto& [rank, member] : by_rank) {
    member->epoch = epoch;
    member->step = step;
    member->members = members;
    Enter(member, Phase::kTraining);
  }
}

void Processes::Train(Process* process) {
  bool is_held_up = false;
  for (const auto& [rank, incarnation] : process->members) {
    const auto link = process->links.find(rank);
    if (link == process->links.end()) {
      continue;  // itself
    }
    const Process* peer = nullptr;
    for (const Process* one : PeersOf(*process)) {
      if (*one->environment.rank == rank && one->environment.incarnation == incarnation) {
        peer = one;
      }
    }
    const bool has_finished =
        peer != nullptr && peer->end.has_value() && peer->end->code == kExitSuccess;
    if (has_finished) {
      continue;
    }
    const bool is_replaced = link->second.incarnation != incarnation;
    const bool has_left =
        peer != nullptr && peer->epoch > process->epoch && CanHear(*process, *peer);
    if (link->second.is_lost || is_replaced || has_left) {
      if (!has_left) {
        process->gone.emplace(rank, incarnation);
      }
      process->epoch = has_left ? peer->epoch : process->epoch.Next();
      Enter(process, Phase::kRendezvous);
      return;
    }
    is_held_up = is_held_up || link->second.silent_since.has_value();
  }
  if (is_held_up) {
    return;  // nobody steps alone
  }
  process->step += 1 + static_cast<int64_t>(context_->prng.Below(2));
  if (process->step >= StepsOf(*process)) {
    Finish(process);
  }
}

// A program of the user's: it starts when all are there, hangs when one has gone, and ends.
void Processes::RunCommand(Process* process) {
  int present = 1 + static_cast<int>(process->finished.size());
  bool has_lost_one = false;
  for (const Process* peer : PeersOf(*process)) {
    const bool is_there = CanHear(*process, *peer) && !peer->stop_by.has_value() &&
                          !peer->held.has_value() && peer->relaunches == process->relaunches;
    present += is_there ? 1 : 0;
    has_lost_one = has_lost_one || (peer->end.has_value() && peer->end->code != kExitSuccess);
  }
  process->phase = Phase::kTraining;
  if (has_lost_one || present < process->environment.world_size) {
    return;
  }
  process->step += 1 + static_cast<int64_t>(context_->prng.Below(2));
  if (process->step >= StepsOf(*process)) {
    Finish(process);
  }
}

bool Processes::IsClosed(const std::string& pod_uid) const {
  const Process* const process = Find(pod_uid);
  return process != nullptr && !IsAlive(*process) && cut_off.count(process->node) == 0;
}

std::optional<StatusDocument> Processes::Report(const std::string& pod_uid) const {
  const Process* const process = Find(pod_uid);
  if (process == nullptr || !IsAlive(*process) || process->is_frozen ||
      cut_off.count(process->node) > 0) {
    return std::nullopt;
  }
  const WorkerEnvironment& environment = process->environment;
  StatusDocument document = InitialStatus(environment);
  document.epoch = process->epoch;
  document.phase = process->phase;
  document.step = Step(process->step);
  if (process->is_training) {  // of a user's program nobody knows
    document.steps_total = StepsOf(*process);
  }
  if (environment.hold.count() > 0) {
    document.relaunches = process->relaunches;
  }
  if (process->held.has_value()) {
    document.held = HeldEnd{process->held->code,
                            0,
                            ToSeconds(context_->now - process->held_since),
                            process->held->message};
  }
  for (const auto& [rank, link] : process->links) {
    PeerStatus peer{rank, link.incarnation, PeerState::kConnected, "", 0};
    if (link.is_lost || process->gone.count({rank, link.incarnation}) > 0) {
      peer.state = PeerState::kLost;
      peer.reason = "its connection closed";
    } else if (link.silent_since.has_value()) {
      peer.silent_seconds = ToSeconds(context_->now - *link.silent_since);
      if (context_->now - *link.silent_since >= environment.silent_after) {
        peer.state = PeerState::kSilent;
        peer.reason = "nothing was heard of it";
      }
    }
    document.peers.push_back(std::move(peer));
  }
  const bool is_meeting = process->phase == Phase::kRendezvous;
  for (int rank = 0; is_meeting && rank < environment.world_size; ++rank) {
    if (rank != *environment.rank && process->links.count(rank) == 0) {
      document.peers.push_back({rank,
                                Incarnation(0),
                                PeerState::kMissing,
                                "",
                                ToSeconds(context_->now - process->phase_since)});
    }
  }
  return document;
}

void Processes::Receive(const std::string& pod_uid, const ControlMessage& message) {
  const auto found = processes_.find(pod_uid);
  if (found == processes_.end() || !IsAlive(found->second) || found->second.is_frozen ||
      cut_off.count(found->second.node) > 0) {
    return;
  }
  Process& process = found->second;
  const ControlReceiver receiver{
      process.environment.job_uid, process.environment.attempt, process.control_counter};
  if (!CheckControlFreshness(message, receiver).ok()) {
    return;
  }
  process.control_counter = message.counter;
  if (message.kind == ControlKind::kStop) {
    Stop(pod_uid, process.environment.grace);
    return;
  }
  Hear(&process, message);
}

void Processes::Hear(Process* process, const ControlMessage& message) {
  if (message.kind == ControlKind::kPeerGone) {
    process->gone.emplace(message.rank, message.incarnation);
    if (message.epoch > process->epoch) {
      process->epoch = message.epoch;
      Enter(process, Phase::kRendezvous);
    }
    return;
  }
  if (process->environment.hold.count() == 0 || message.relaunch <= process->relaunches) {
    return;
  }
  if (message.kind == ControlKind::kHalt && !process->held.has_value()) {
    context_->Count("a program that is halted for a relaunch");
    process->held = ProcessEnd{kExitSuccess, "Completed"};
    process->held_since = context_->now;
  } else if (message.kind == ControlKind::kRelaunch) {
    context_->Tell("program of " + process->environment.pod + " starts again, relaunch " +
                   std::to_string(message.relaunch));
    context_->Count("a program that is started again in its pod");
    for (const Process* peer : PeersOf(*process)) {
      if (IsAlive(*peer) && !peer->held.has_value() && peer->relaunches < message.relaunch) {
        mixed.push_back(process->environment.pod + " starts again beside " + peer->environment.pod +
                        ", which still runs");
      }
    }
    process->held.reset();
    process->finished.clear();
    process->relaunches = message.relaunch;
    process->epoch = std::max(process->epoch, message.epoch);
    process->step = 0;
  }
}

}  // namespace lockstep::control::sim
