#include "operator/local/local_pod.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include "common/base/io/file.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kTerminationBytesMax = 4096;  // the kubelet's limit
constexpr int kDrainReadsMax = 16;  // of 64 KiB: one loud pod does not starve the others

int StartErrorExitCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return 127;
    case ErrorCode::kInvalidArgument:
      return 126;
    default:
      return 128;  // what runc's StartError carries
  }
}

}  // namespace

Result<LocalPod> LocalPod::Start(kube::Pod pod, LocalPodOptions options) {
  LOCKSTEP_RETURN_IF_ERROR(MakeDirectories(options.directory));
  // Begun anew, as a message of an earlier run in the same folder is not this pod's, and with room,
  // so that why a disk is full is told on it. Where it is full already, a pod starts without.
  [[maybe_unused]] const Status reserved =
      ReserveFile(options.termination_file, kTerminationBytesMax);
  LOCKSTEP_ASSIGN_OR_RETURN(PodLog log, PodLog::Open(options.log));
  LocalPod local(std::move(pod), std::move(options), std::move(log));
  const Status started = local.StartProgram();
  if (!started.ok()) {
    local.FailToStart(started.error());
  }
  return local;
}

Status LocalPod::StartProgram() {
  const kube::ContainerSpec& container = pod_.spec.container;
  SpawnRequest request;
  request.argv = container.command;
  request.argv.insert(request.argv.end(), container.args.begin(), container.args.end());
  if (request.argv.empty()) {
    return Error(ErrorCode::kInvalidArgument, "the pod's container has no command");
  }
  request.env = options_.environment;
  request.working_dir = options_.working_dir.empty() ? options_.directory : options_.working_dir;
  int fds[2] = {-1, -1};
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    return SystemError(errno, "creating a pipe for the pod's output");
  }
  output_ = UniqueFd(fds[0]);
  const UniqueFd write_end(fds[1]);
  // Only our end: the pod's own writes block when we fall behind, so nothing it says is lost.
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  request.output_fd = write_end.get();
  request.lineage_mark = options_.lineage_mark;
  LOCKSTEP_ASSIGN_OR_RETURN(process_, SpawnProcess(request));
  pod_.status.phase = kube::PodPhase::kRunning;
  pod_.status.pid = process_.pid;
  return OkStatus();
}

void LocalPod::FailToStart(const Error& error) {
  output_.Reset();
  kube::ContainerTermination termination;
  termination.exit_code = StartErrorExitCode(error.code());
  termination.reason = "StartError";
  termination.message = error.ToString();
  log_.Append(termination.message + "\n", SteadyNow());
  pod_.status.phase = kube::PodPhase::kFailed;
  pod_.status.termination = std::move(termination);
}

LocalPod::~LocalPod() {
  if (!is_running()) {
    return;
  }
  if (sweep_ != Sweep::kDone) {
    Signal(SIGKILL);
    KillMatching({Processes()}, kKillRoundsMax);
  }
  [[maybe_unused]] const auto end = Reap(process_.pidfd.get());
}

bool LocalPod::DrainOutput() {
  std::array<char, 64 << 10> buffer{};
  for (int reads = 0; reads < kDrainReadsMax; ++reads) {
    const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
    if (got > 0) {
      log_.Append(std::string_view(buffer.data(), static_cast<std::size_t>(got)), SteadyNow());
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
}

void LocalPod::Signal(int signal) {
  if (is_running()) {
    // The leader is not reaped before `process_` is closed, so the group's number is still its own.
    ::kill(-process_.pid, signal);
  }
}

void LocalPod::SignalAll(int signal) {
  if (!is_running()) {
    return;
  }
  Signal(signal);
  if (signal == SIGKILL) {
    return;  // what has left the group is killed when the leader's end is noticed
  }
  SignalMatching(Processes(), signal);
}

void LocalPod::Terminate(TimePoint now, Deadline kill_at) {
  const bool is_first = !pod_.is_deleting;
  pod_.is_deleting = true;
  if (!kill_at_ || kill_at.when() < kill_at_->when()) {
    kill_at_ = kill_at;
  }
  if (is_first && !kill_at.HasPassed(now)) {
    Signal(SIGTERM);
  }
  KillIfDue(now);
}

std::optional<TimePoint> LocalPod::kill_time() const {
  if (needs_sweep()) {
    return TimePoint::min();
  }
  if (!is_running() || !kill_at_) {
    return std::nullopt;
  }
  return std::min(kill_at_->when(), look_at_);
}

// A program that a signal has stopped does not hear the request: it would sleep through its grace
// period. It may be stopped at any time, and a stop takes a moment to show.
void LocalPod::KillIfDue(TimePoint now) {
  constexpr Duration kLookInterval = std::chrono::milliseconds(200);
  if (!is_running() || !kill_at_) {
    return;
  }
  bool is_due = kill_at_->HasPassed(now);
  if (!is_due && now >= look_at_) {
    look_at_ = now + kLookInterval;
    is_due = IsStopped(process_.pid);
  }
  if (is_due) {
    kill_at_.reset();
    KillGroup();
  }
}

void LocalPod::KillOutOfMemory(int64_t used_bytes) {
  if (!is_running() || !memory_verdict_.empty()) {
    return;
  }
  memory_verdict_ = "used " + std::to_string(used_bytes) + " bytes of memory, the limit is " +
                    std::to_string(pod_.spec.container.limits.memory_bytes);
  KillGroup();
}

void LocalPod::KillGroup() {
  Signal(SIGKILL);
  sweep_ = Sweep::kNeeded;
}

ProcessSelector LocalPod::Processes() const {
  ProcessSelector processes;
  processes.sessions = {process_.pid};
  processes.environment_prefix = options_.marker;
  processes.lineage = {options_.lineage_mark, options_.lineage_mark};
  return processes;
}

void LocalPod::Finish(bool kernel_killed) {
  const auto end = Reap(process_.pidfd.get());
  DrainOutput();  // no writer is left, and a pipe holds less than one call takes
  output_.Reset();
  log_.Finish();
  process_.pidfd.Reset();

  kube::ContainerTermination termination;
  termination.finished_at = SystemClock().WallNow();
  termination.container = pod_.spec.container.name;
  termination.exit_code = end.ok() ? end->exit_code : 128 + SIGKILL;
  termination.signal = end.ok() ? end->signal : SIGKILL;
  termination.reason = termination.exit_code == 0 ? "Completed" : "Error";
  termination.message = ReadTerminationMessage();
  if (!memory_verdict_.empty() || (kernel_killed && termination.signal == SIGKILL)) {
    termination.reason = "OOMKilled";
    termination.exit_code = 128 + SIGKILL;
    if (!memory_verdict_.empty()) {
      termination.message = memory_verdict_;
    }
  } else if (termination.message.empty() && termination.exit_code != 0 &&
             termination.signal != SIGKILL) {
    termination.message = log_.Tail();  // what was killed from outside could not say why
  }
  pod_.status.phase =
      termination.exit_code == 0 ? kube::PodPhase::kSucceeded : kube::PodPhase::kFailed;
  pod_.status.termination = std::move(termination);
}

std::string LocalPod::ReadTerminationMessage() const {
  const UniqueFd file(::open(options_.termination_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    return "";
  }
  std::string message(kTerminationBytesMax, '\0');
  const ssize_t got = ::read(file.get(), message.data(), message.size());
  message.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return message;
}

}  // namespace lockstep::control
