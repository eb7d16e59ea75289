#include "operator/local/pod_runner.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/base/digest.h"
#include "operator/local/inject_exit.h"
#include "operator/local/pod_processes.h"

namespace lockstep::control {
namespace {

// Marks every process of the run: what leaves its session is still found by its environment.
constexpr std::string_view kMarkerVariable = "LOCKSTEP_LOCAL_POD=";
constexpr std::size_t kTokenBytes = 8;
constexpr int kEventsPerTurn = 64;
constexpr int kFinalSweepRoundsMax = 50;
constexpr int64_t kGuardSerial = 0;  // pods count from 1
constexpr int kGuardsMax = 10;       // choice: who ends so many means it, or they end by themselves

// What an epoll event is about, beside the pod's serial.
enum class Source : uint64_t { kOutput = 0, kExit = 1 };

// Of a lineage mark the token is above, the pod's serial below.
constexpr int kLineageSerialBits = 20;
constexpr uint64_t kLineageSerials = uint64_t{1} << kLineageSerialBits;
constexpr std::size_t kLineageTokenDigits = 10;  // hexadecimal: 40 bits, no two runs' by chance

LineageRange LineageOf(const std::string& token) {
  const uint64_t number = std::strtoull(token.substr(0, kLineageTokenDigits).c_str(), nullptr, 16);
  const uint64_t first = (number + 1) << kLineageSerialBits;
  return {first, first + kLineageSerials - 1};
}

uint64_t TagOf(int64_t serial, Source source) {
  return static_cast<uint64_t>(serial) * 2 + static_cast<uint64_t>(source);
}

// A name's components stay below the run's folder.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

}  // namespace

Result<std::unique_ptr<PodRunner>> PodRunner::Start(PodRunnerOptions options, Logger* logger) {
  // Children of a pod whose parent died come to us, so that none can hide.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return SystemError(errno, "becoming the parent of orphaned processes");
  }
  const std::string token = RandomHex(kTokenBytes);
  Marks marks{std::string(kMarkerVariable) + token + ".", LineageOf(token)};
  LOCKSTEP_ASSIGN_OR_RETURN(PodGuard guard, PodGuard::Start(AllMarked(marks), options.secret_file));
  std::unique_ptr<PodRunner> cluster(
      new PodRunner(std::move(options), logger, std::move(marks), std::move(guard)));
  if (!cluster->epoll_.is_open()) {
    return SystemError(errno, "epoll");
  }
  cluster->WatchGuard();
  return cluster;
}

ProcessSelector PodRunner::AllMarked(const Marks& marks) {
  ProcessSelector marked;
  marked.environment_prefix = marks.environment;
  marked.lineage = marks.lineage;
  return marked;
}

PodRunner::PodRunner(PodRunnerOptions options, Logger* logger, Marks marks, PodGuard guard)
    : options_(std::move(options)),
      logger_(logger),
      marks_(std::move(marks)),
      guard_(std::move(guard)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      oom_kill_count_(ReadOomKillCount()) {}

PodRunner::~PodRunner() {
  std::vector<LocalPod*> living;
  for (auto& [serial, slot] : pods_) {
    slot.local.Signal(SIGKILL);
    if (slot.local.is_running()) {
      living.push_back(&slot.local);
    }
  }
  SweepAll(living);
  pods_.clear();  // each waits for its leader
  // Orphans come to us as children: even one that left its session and took off its marks.
  ProcessSelector leftovers = AllMarked(marks_);
  leftovers.parent = ::getpid();
  leftovers.spared = guard_ ? guard_->pid() : 0;
  const int left = KillMatching({leftovers}, kFinalSweepRoundsMax);
  if (left > 0) {
    logger_->Debug("killed processes that had left their pods", {{"count", left}});
  }
  ReapOrphans();
  if (guard_ && !guard_->End(options_.guard_patience)) {
    logger_->Warn(
        "lockstep killed its pod guard, the process that ends the pods if lockstep is killed: the "
        "pod guard did not end by itself, perhaps because a signal had stopped it",
        {{"waited_seconds", ToSeconds(options_.guard_patience)}});
  }
}

LocalPodOptions PodRunner::PodOptions(const kube::Pod& pod, int64_t serial) const {
  LocalPodOptions made;
  made.directory = options_.directory + "/pods/" + pod.name;
  made.termination_file = made.directory + "/termination-message";
  made.marker = marks_.environment + std::to_string(serial) + ".";  // 1 is not how 10 begins
  made.lineage_mark = marks_.lineage.first + static_cast<uint64_t>(serial) % kLineageSerials;
  made.environment = pod.spec.container.env;
  if (!options_.termination_file_variable.empty()) {
    made.environment[options_.termination_file_variable] = made.termination_file;
  }
  made.environment.insert(options_.base_environment.begin(), options_.base_environment.end());
  const std::size_t equals = made.marker.find('=');
  made.environment[made.marker.substr(0, equals)] = made.marker.substr(equals + 1);
  const std::string& working_dir = pod.spec.container.working_dir;
  if (working_dir.empty()) {
    made.working_dir = options_.manifest_directory;
  } else {
    made.working_dir = working_dir.starts_with('/')
                           ? working_dir
                           : options_.manifest_directory + "/" + working_dir;
  }
  made.log.path = made.directory + "/pod.log";
  if (options_.on_line) {
    made.log.on_line = [this, pod](std::string_view line) { options_.on_line(pod, line); };
  }
  return made;
}

Status PodRunner::CreatePod(kube::Pod pod, TimePoint now) {
  if (!IsPlainName(pod.name)) {
    return Error(ErrorCode::kInvalidArgument, "\"" + pod.name + "\" is not a valid name of a pod");
  }
  if (Find(pod.name) != nullptr) {
    return Error(ErrorCode::kAlreadyExists, "pod " + pod.name + " exists");
  }
  const int64_t serial = next_serial_++;
  pod.uid = RandomHex(16);
  pod.status = kube::PodStatus();
  if (options_.address_of) {
    pod.status.pod_ip = options_.address_of(pod);
  }
  LocalPodOptions pod_options = PodOptions(pod, serial);
  LOCKSTEP_ASSIGN_OR_RETURN(LocalPod local,
                            LocalPod::Start(std::move(pod), std::move(pod_options)));
  const auto [at, inserted] = pods_.emplace(serial, Slot(std::move(local)));
  const LocalPod& started = at->second.local;
  const pid_t leader = started.leader();
  if (leader != 0) {
    if (guard_) {
      guard_->Watch(leader);
    }
    if (Status watched = Register(serial, at->second); !watched.ok()) {
      pods_.erase(at);  // and with it all that runs of it
      if (guard_) {
        guard_->Forget(leader);
      }
      return watched;
    }
  }
  AddEvent(PodChange::kStarted, started, now);
  if (leader == 0) {
    NoteLostOutput(&at->second);
    AddEvent(PodChange::kEnded, started, SteadyNow());
    return OkStatus();
  }
  logger_->Debug("pod started", {{"pod", started.pod().name}, {"pid", leader}});
  return OkStatus();
}

// Where it cannot be watched it guards all the same.
void PodRunner::WatchGuard() {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = TagOf(kGuardSerial, Source::kExit);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, guard_->pidfd(), &event) != 0) {
    const Error error = SystemError(errno, "adding the process to epoll");
    logger_->Warn(
        "lockstep cannot watch its pod guard, the process that ends the pods if lockstep is killed",
        {{"error", error.ToString()}});
  }
}

// Without one, a SIGKILL of this process would leave programs and the run's secret behind.
void PodRunner::RestartGuard() {
  guard_.reset();
  ++guards_ended_;
  if (guards_ended_ == kGuardsMax) {
    logger_->Warn(
        "lockstep's pod guard was killed again and is not restarted: if lockstep is killed now, "
        "its pods keep running",
        {{"times", guards_ended_}});
    return;
  }
  auto guard = PodGuard::Start(AllMarked(marks_), options_.secret_file);
  if (!guard.ok()) {
    logger_->Warn(
        "lockstep's pod guard was killed and cannot be restarted: if lockstep is killed now, its "
        "pods keep running",
        {{"error", guard.error().ToString()}});
    return;
  }
  guard_.emplace(std::move(guard).value());
  for (const auto& [serial, slot] : pods_) {
    if (slot.local.is_running()) {
      guard_->Watch(slot.local.leader());
    }
  }
  WatchGuard();
  logger_->Warn(
      "the pod guard, the process that ends the pods if lockstep is killed, was itself killed; "
      "lockstep restarted it",
      {{"pid", guard_->pid()}});
}

// What is registered of a pod that is given up leaves the set with its descriptors.
Status PodRunner::Register(int64_t serial, const Slot& slot) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = TagOf(serial, Source::kOutput);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, slot.local.output_fd(), &event) != 0) {
    return SystemError(errno, "watching the pod's output");
  }
  event.data.u64 = TagOf(serial, Source::kExit);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, slot.local.pidfd(), &event) != 0) {
    return SystemError(errno, "watching the pod's process");
  }
  return OkStatus();
}

Status PodRunner::DeletePod(const std::string& name, Duration grace, TimePoint now) {
  auto* entry = Find(name);
  if (entry == nullptr) {
    return Error(ErrorCode::kNotFound, "no pod " + name);
  }
  entry->second.local.Terminate(now, Deadline::After(now, grace));
  RemoveDeleted(now);
  return OkStatus();
}

Status PodRunner::SignalPod(const std::string& name, int signal) {
  auto* entry = Find(name);
  if (entry == nullptr) {
    return Error(ErrorCode::kNotFound, "no pod " + name);
  }
  entry->second.local.SignalAll(signal);
  return OkStatus();
}

Status PodRunner::ForceExit(const std::string& name, int exit_code) {
  auto* entry = Find(name);
  if (entry == nullptr || !entry->second.local.is_running()) {
    return Error(ErrorCode::kNotFound, "no running pod " + name);
  }
  return InjectExit(entry->second.local.leader(), exit_code);
}

std::vector<kube::Pod> PodRunner::pods() const {
  std::vector<kube::Pod> all;
  for (const auto& [serial, slot] : pods_) {
    all.push_back(slot.local.pod());
  }
  return all;
}

const kube::Pod* PodRunner::FindPod(const std::string& name) const {
  const auto at = std::find_if(pods_.begin(), pods_.end(), [&name](const auto& entry) {
    return entry.second.local.pod().name == name;
  });
  return at == pods_.end() ? nullptr : &at->second.local.pod();
}

std::optional<TimePoint> PodRunner::NextDeadline(TimePoint now) const {
  std::optional<TimePoint> next;
  const auto consider = [&next](TimePoint when) { next = next ? std::min(*next, when) : when; };
  for (const auto& [serial, slot] : pods_) {
    if (const auto kill_time = slot.local.kill_time()) {
      consider(std::max(*kill_time, now));
    }
  }
  if (HasMemoryLimits()) {
    consider(std::max(next_sweep_, now));
  }
  if (!events_.empty()) {
    consider(now);
  }
  return next;
}

void PodRunner::Process(TimePoint now) {
  std::array<epoll_event, kEventsPerTurn> ready{};
  const int count = ::epoll_wait(epoll_.get(), ready.data(), kEventsPerTurn, 0);
  std::vector<int64_t> ended;
  for (int index = 0; index < count; ++index) {
    const uint64_t tag = ready[static_cast<std::size_t>(index)].data.u64;
    const auto serial = static_cast<int64_t>(tag / 2);
    if (serial == kGuardSerial) {
      RestartGuard();
    } else if (tag == TagOf(serial, Source::kExit)) {
      ended.push_back(serial);
    } else {
      HandleOutput(serial);
    }
  }
  for (auto& [serial, slot] : pods_) {
    slot.local.KillIfDue(now);
  }
  HandleEnds(ended);
  SweepMemory(now);
  RemoveDeleted(now);
  ReapOrphans();
}

// What is killed or has ended in one turn is looked for in one pass over the system's processes.
void PodRunner::HandleEnds(const std::vector<int64_t>& ended) {
  const TimePoint noticed = SteadyNow();
  std::vector<LocalPod*> swept;
  for (auto& [serial, slot] : pods_) {
    const bool has_ended = slot.local.is_running() && !slot.local.is_swept() &&
                           std::find(ended.begin(), ended.end(), serial) != ended.end();
    if (has_ended || slot.local.needs_sweep()) {
      swept.push_back(&slot.local);
    }
  }
  SweepAll(swept);
  for (const int64_t serial : ended) {
    const auto at = pods_.find(serial);
    if (at != pods_.end() && at->second.local.is_running()) {
      HandleExit(serial, noticed, &at->second);
    }
  }
}

void PodRunner::SweepAll(const std::vector<LocalPod*>& pods) {
  if (pods.empty()) {
    return;
  }
  std::vector<ProcessSelector> selectors;
  for (const LocalPod* pod : pods) {
    selectors.push_back(pod->Processes());
  }
  KillMatching(selectors, kKillRoundsMax);
  ++sweep_count_;
  for (LocalPod* pod : pods) {
    pod->NoteSwept();
  }
}

void PodRunner::HandleOutput(int64_t serial) {
  const auto at = pods_.find(serial);
  if (at == pods_.end() || !at->second.local.is_running()) {
    return;
  }
  Slot& slot = at->second;
  const bool is_over = slot.output_open && !slot.local.DrainOutput();
  NoteLostOutput(&slot);
  if (is_over) {
    // Everyone in the pod has closed its output; the descriptor would be readable for ever.
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, slot.local.output_fd(), nullptr);
    slot.output_open = false;
  }
}

void PodRunner::AddEvent(PodChange change, const LocalPod& pod, TimePoint at) {
  events_.push_back(PodEvent{change, pod.pod(), at, pod.lost_output()});
}

void PodRunner::NoteLostOutput(Slot* slot) {
  if (slot->local.lost_output().bytes > 0 && !slot->has_told_loss) {
    slot->has_told_loss = true;
    AddEvent(PodChange::kOutputLost, slot->local, SteadyNow());
  }
}

void PodRunner::HandleExit(int64_t serial, TimePoint noticed, Slot* slot) {
  LocalPod& local = slot->local;
  const pid_t session = local.leader();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, local.pidfd(), nullptr);
  if (slot->output_open) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, local.output_fd(), nullptr);
    slot->output_open = false;
  }
  // The counter is the whole machine's: a pod that was killed by hand in the very moment in which
  // the kernel killed something else is taken for out of memory, too.
  const int64_t oom_kill_count = ReadOomKillCount();
  local.Finish(oom_kill_count > oom_kill_count_);
  oom_kill_count_ = oom_kill_count;
  if (guard_) {
    guard_->Forget(session);
  }
  NoteLostOutput(slot);
  AddEvent(PodChange::kEnded, local, noticed);
  logger_->Debug("pod ended",
                 {{"pod", local.pod().name},
                  {"serial", serial},
                  {"exit_code", local.pod().status.termination->exit_code},
                  {"reason", local.pod().status.termination->reason}});
}

void PodRunner::RemoveDeleted(TimePoint now) {
  for (auto at = pods_.begin(); at != pods_.end();) {
    const LocalPod& local = at->second.local;
    if (local.pod().is_deleting && !local.is_running()) {
      AddEvent(PodChange::kDeleted, local, now);
      at = pods_.erase(at);
    } else {
      ++at;
    }
  }
}

bool PodRunner::HasMemoryLimits() const {
  return std::any_of(pods_.begin(), pods_.end(), [](const auto& entry) {
    return entry.second.local.is_running() &&
           entry.second.local.pod().spec.container.limits.memory_bytes > 0;
  });
}

void PodRunner::SweepMemory(TimePoint now) {
  if (now < next_sweep_ || !HasMemoryLimits()) {
    return;
  }
  next_sweep_ = now + options_.memory_sweep_interval;
  std::vector<pid_t> leaders;
  for (const auto& [serial, slot] : pods_) {
    if (slot.local.is_running()) {
      leaders.push_back(slot.local.leader());
    }
  }
  std::map<pid_t, int64_t> bytes = ResidentBytesByLeader(ReadProcessStats(), leaders);
  for (auto& [serial, slot] : pods_) {
    const int64_t limit = slot.local.pod().spec.container.limits.memory_bytes;
    const int64_t used = bytes[slot.local.leader()];
    if (slot.local.is_running() && limit > 0 && used > limit) {
      slot.local.KillOutOfMemory(used);
    }
  }
}

// Adopted orphans that have ended. Leaders of pods and the guard are reaped by their owners, so
// the loop stops at the first of those; whatever hides behind it comes with a later turn.
void PodRunner::ReapOrphans() {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return;
    }
    const bool is_leader = std::any_of(pods_.begin(), pods_.end(), [&info](const auto& entry) {
      return entry.second.local.leader() == info.si_pid;
    });
    if (is_leader || (guard_ && info.si_pid == guard_->pid())) {
      return;
    }
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

std::vector<PodEvent> PodRunner::TakeEvents() {
  return std::exchange(events_, {});
}

std::pair<const int64_t, PodRunner::Slot>* PodRunner::Find(const std::string& name) {
  for (auto& entry : pods_) {
    if (entry.second.local.pod().name == name) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace lockstep::control
