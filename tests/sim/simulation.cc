#include "tests/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"
#include "operator/kubeclient/kube/capacity_kinds.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kFaultTicks = 250;

// One loses its label, one may be broken, and two hold the largest job.
constexpr int kNodesOfRack = 4;

// Of the codes that the adversary ends processes with: those that no retry cures.
bool IsPermanent(int code) {
  return code == 1 || code == 126;
}

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  writes += other.writes;
  restarts += other.restarts;
  rollbacks += other.rollbacks;
  operator_deaths += other.operator_deaths;
  replayed_rounds += other.replayed_rounds;
  succeeded += other.succeeded;
  failed += other.failed;
  work_max = std::max(work_max, other.work_max);
  for (const auto& [name, count] : other.moves) {
    moves[name] += count;
  }
  return *this;
}

Simulation::Simulation(uint64_t seed,
                       bool lets_bad_users,
                       std::function<void(const std::string&)> trace)
    : context_(seed, lets_bad_users),
      processes_(&context_),
      nodes_(&context_, &server_, &processes_),
      autoscaler_({&context_,
                   &server_,
                   &nodes_,
                   // No list is from before it was there.
                   [this] {
                     first_version_ = server_.store().version();
                     server_.cache_lag = 0;
                   },
                   [this](const std::string& node) { NoteLoss(node); }},
                  kGpusOfNode),
      logger_(MakeNullLogger()),
      checks_(&context_, &server_, &nodes_, &processes_) {
  context_.trace = [this, trace = std::move(trace)](const std::string& what) {
    if (trace) {
      trace("[" + std::to_string(ToSeconds(context_.now.time_since_epoch()) - 3600) + "] " +
            std::string(static_cast<std::size_t>(depth_) * 2, ' ') + what);
    }
  };
  keeps_time_ = context_.Happens(4) || context_.learns_run_times;
  if (context_.has_bad_users) {
    keeps_time_ = keeps_time_ || context_.bad_users_prng.Below(2) == 0;
  }
  int node_count = 2 + static_cast<int>(context_.prng.Below(3));
  if (context_.has_autoscaler) {
    node_count = 2;  // the others are for it to add
  }
  node_count = context_.has_racks ? kNodesOfRack : node_count;
  for (int i = 0; i < node_count; ++i) {
    nodes_.Add("n" + std::to_string(i), kGpusOfNode);
  }
  first_version_ = server_.store().version();
  server_.has_streaming_lists = context_.prng.Below(4) != 0;
  server_.pages_everything = context_.prng.Below(4) == 0;
  if (context_.has_shares) {
    CreateShares();
    LimitRunTimes();
  }
  if (context_.learns_run_times) {
    LimitDefaultQueue();
    MakeRecipes();
  }
  if (context_.has_fair_queues) {
    CreateFairQueues();
  }
  context_.has_queues = !server_.store().Of(kube::kTrainingQueues).objects.empty();
  CreateJobs();
}

std::string Simulation::Run(Tally* tally) {
  for (int i = 0; i < kFaultTicks && checks_.problem().empty(); ++i) {
    Adversary();
    Tick();
  }
  MakePeace();
  if (context_.learns_run_times) {
    LetUsersGoOn();
  }
  Settle("jobs did not end", minutes(90), [this] { return AllEnded() && !is_crowd_due_; });
  for (const auto& [key, job] : server_.store().Of(kube::kTrainingJobs).objects) {
    const TrainingJobStatus& status = checks_.JobOf(job).status;
    tally->succeeded += IsTrue(status, ConditionType::kSucceeded) ? 1 : 0;
    tally->failed += IsTrue(status, ConditionType::kFailed) ? 1 : 0;
  }
  Settle("the operator does not come to rest", minutes(30), [this] { return IsQuiet(); });
  const std::string out_of_place = checks_.capacity()->OutOfPlace();
  checks_.Require(out_of_place.empty(), "in quiet: " + out_of_place);
  MakeAQueue();
  Settle("positions in queues are not right", minutes(5), [this] {
    return context_.has_fair_queues || checks_.ArePositionsRight();
  });
  is_over_ = true;
  const auto jobs = server_.mutable_store()->Of(kube::kTrainingJobs).objects;
  for (const auto& [key, job] : jobs) {
    server_.Handle(kube::Delete(kube::kTrainingJobs, kNamespace, key.name, {}),
                   context_.ServerTime());
  }
  LetPodsGo();
  for (const std::string& name : nodes_.names()) {
    nodes_.SetNeverEnds(name, false, false);
  }
  Settle("something is left over", minutes(30), [this] { return IsClean(); });
  tally->writes += checks_.status_writes();
  tally->restarts += checks_.restarts();
  tally->rollbacks += checks_.rollbacks();
  tally->operator_deaths += deaths_;
  tally->work_max = std::max(tally->work_max, context_.work_max);
  const Admission& admission = server_.admission;
  context_.moves["a webhook that denies a pod"] += admission.denied_count;
  context_.moves["a webhook that answers 400"] += admission.bad_request_count;
  context_.moves["a webhook that is slow"] += admission.slow_count;
  context_.moves["a LimitRange that makes a pod larger"] += admission.raised_count;
  for (const auto& [name, count] : context_.moves) {
    tally->moves[name] += count;
  }
  return checks_.problem();
}

void Simulation::Tick() {
  context_.now += context_.Between(milliseconds(50), milliseconds(400));
  NoteDeaths();
  Interlude();
  KeepOperatorsAlive();
  if (!context_.has_faults) {
    RunProgramBreaks();
    RunAdministrator();
    if (context_.has_bad_users) {
      MendBadUsers();
    }
  }
  checks_.CheckWorld();
  int leaders = 0;
  for (const auto& [number, one] : operators_) {
    leaders += one->IsLeader() ? 1 : 0;
  }
  checks_.Require(leaders <= 1, "two operators lead");
}

// Everybody acts once, in some order; those who wait for a call of their own do not.
void Simulation::Interlude() {
  if (depth_ > 1) {
    return;
  }
  ++depth_;
  processes_.Run();
  NoteDeaths();
  nodes_.Run();
  if (context_.has_autoscaler) {
    autoscaler_.Run();
  }
  if (context_.Happens(3)) {
    const bool was_terminating = !server_.terminating.empty();
    server_.CollectGarbage(context_.ServerTime());
    if (was_terminating && server_.terminating.empty() && !is_over_) {
      CreateJobs();
    }
  }
  for (auto& [number, one] : operators_) {
    one->Run();
  }
  --depth_;
}

void Simulation::KeepOperatorsAlive() {
  for (int number = 0; number < 2; ++number) {
    const auto found = operators_.find(number);
    if (found != operators_.end() && found->second->is_dead()) {
      operators_.erase(found);
      ++deaths_;
      starts_at_[number] = context_.now + context_.Between(milliseconds(0), seconds(10));
    } else if (found == operators_.end() && starts_at_[number] <= context_.now) {
      const std::string identity = "operator-" + std::to_string(next_identity_++);
      context_.Tell(identity + " starts");
      operators_[number] =
          std::make_unique<SimOperator>(SimOperator::Parts{&context_,
                                                           &server_,
                                                           &processes_,
                                                           &checks_,
                                                           [this] { Interlude(); },
                                                           logger_.get(),
                                                           make_recorder_(identity)},
                                        identity);
      operators_[number]->SetOutage(outage_until_ > context_.now);
    }
  }
}

void Simulation::MakePeace() {
  context_.Tell("--- peace ---");
  context_.has_faults = false;
  context_.peace_since = context_.now;
  server_.admission.denials = 0;
  server_.admission.bad_requests = 0;
  server_.admission.slow_answers = 0;
  nodes_.ReturnAll();
  processes_.ThawUnmissed();
  server_.quotas.clear();
  server_.cache_lag = 0;
  FreeNames();
  outage_until_ = context_.now;
  for (auto& [number, one] : operators_) {
    one->SetOutage(false);
    one->FreezeUntil(context_.now);
  }
  for (const std::string& name : nodes_.names()) {
    server_.Edit(
        kube::kNodes, {"", name}, [](Json* node) { (*node)["spec"].erase("unschedulable"); });
  }
  const auto jobs = server_.mutable_store()->Of(kube::kTrainingJobs).objects;
  for (const auto& [key, job] : jobs) {
    server_.Edit(kube::kTrainingJobs, key, [](Json* one) {
      (*one)["spec"]["runPolicy"]["suspend"] = false;
    });
  }
  LeaveSomethingBroken();
  if (context_.has_bad_users) {
    LeaveBadUsers();
  }
}

void Simulation::Settle(const std::string& what,
                        Duration within,
                        const std::function<bool()>& is_done) {
  const TimePoint deadline = context_.now + within;
  while (checks_.problem().empty() && !is_done()) {
    if (context_.now >= deadline) {
      checks_.Require(false, what + ": " + Describe());
      return;
    }
    Tick();
    if (context_.Happens(20)) {
      context_.now += seconds(1);  // what takes long takes fewer looks
    }
  }
}

// But for those that no node can hold: they wait for ever, and nobody waits for them.
bool Simulation::AllEnded() {
  const auto& jobs = server_.store().Of(kube::kTrainingJobs).objects;
  return std::all_of(jobs.begin(), jobs.end(), [this](const auto& object) {
    const TrainingJob& job = checks_.JobOf(object.second);
    return !IsDeleting(*object.second) &&
           (HasEnded(job.status) || job.spec.roles[0].gpus > kGpusOfNode);
  });
}

// Nothing is written while nothing happens.
bool Simulation::IsQuiet() {
  int64_t writes = 0;
  for (const auto& [number, one] : operators_) {
    writes -= one->writes();
  }
  for (int i = 0; i < 60 && checks_.problem().empty(); ++i) {
    Tick();
    context_.now += seconds(1);
  }
  for (const auto& [number, one] : operators_) {
    writes += one->writes();
  }
  return writes == 0;
}

bool Simulation::IsClean() const {
  for (const kube::ResourceType& type : {kube::kTrainingJobs,
                                         kube::kPods,
                                         kube::kServices,
                                         kube::kPodTemplates,
                                         kube::kProvisioningRequests}) {
    for (const auto& [key, object] : server_.store().Of(type).objects) {
      if (key.name.starts_with("job")) {
        return false;
      }
    }
  }
  const auto& secrets = server_.store().Of(kube::kSecrets).objects;
  return std::none_of(secrets.begin(), secrets.end(), [](const auto& secret) {
    return secret.first.namespace_name == kNamespace;
  });
}

std::string Simulation::Describe() const {
  std::string text;
  for (const auto& [key, object] : server_.store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob job = DecodeJob(*object);
    text += key.name + (IsDeleting(*object) ? " deleting" : "") + " attempt " +
            std::to_string(job.status.attempt.value()) + " [" + TrueConditions(job.status) + "] " +
            DescribeRestarts(job.status) + " " + MessageOf(job.status, ConditionType::kScheduled) +
            " " + MessageOf(job.status, ConditionType::kFailed) + "; ";
  }
  for (const auto& [key, pod] : server_.store().Of(kube::kPods).objects) {
    text += key.name + ":" + TextAt(*pod, "status.phase") + "@" + TextAt(*pod, "spec.nodeName") +
            (IsDeleting(*pod) ? "- " : " ");
  }
  for (const auto& [number, one] : operators_) {
    text += one->identity() + (one->IsLeader() ? " leads " : " ");
  }
  return text;
}

// What has ended by itself, or by the adversary's hand, may be answered with a restart.
void Simulation::NoteDeaths() {
  for (const auto& [uid, process] : processes_.all()) {
    if (process.held.has_value() && process.held->code != 0) {
      checks_.casualties()->NoteHeld(uid, process.relaunches);
      if (IsPermanent(process.held->code)) {
        checks_.casualties()->NotePermanentEnd(process.environment.job_uid);
      }
    }
    if (process.end.has_value()) {
      const bool was_asked = process.stop_by.has_value() || process.end->code == 0;
      const bool is_another = process.held.has_value() ? process.held->code != process.end->code
                                                       : process.relaunches > 0;
      if (is_another && !was_asked) {
        checks_.casualties()->NoteHeld(uid, process.held.has_value() ? -1 : process.relaunches);
      } else {
        checks_.casualties()->NoteAlone(uid, was_asked);
      }
      if (IsPermanent(process.end->code)) {
        checks_.casualties()->NotePermanentEnd(process.environment.job_uid);
      }
    } else if (process.is_frozen || processes_.cut_off.count(process.node) > 0) {
      checks_.casualties()->NoteAlone(uid, /*is_free=*/false);
    }
  }
}

}  // namespace lockstep::control::sim
