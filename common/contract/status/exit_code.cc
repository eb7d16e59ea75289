#include "common/contract/status/exit_code.h"

#include <csignal>

#include "common/base/check.h"

namespace lockstep {
namespace {

// What a kubelet, a node or the API server says about a pod or container it ended or never started.
struct ReasonRule {
  std::string_view reason;
  ExitVerdict verdict;
};

constexpr ExitVerdict kNodeTookItBack{Outcome::kRetryable, ExitCause::kNodeLost};
constexpr ExitVerdict kCannotStart{Outcome::kPermanent, ExitCause::kStartError};

// Words of pods: the pod was taken away, so the container's own code says nothing about the work.
constexpr std::array<ReasonRule, 9> kPodReasons = {{
    {"Evicted", kNodeTookItBack},
    {"NodeLost", kNodeTookItBack},
    {"NodeShutdown", kNodeTookItBack},
    {"NodeAffinity", kNodeTookItBack},
    {"Shutdown", kNodeTookItBack},
    {"Terminated", kNodeTookItBack},
    {"Preempting", kNodeTookItBack},
    {"UnexpectedAdmissionError", kNodeTookItBack},
    {"ContainerStatusUnknown", kNodeTookItBack},
}};

// Words of containers that never ran. What is wrong is in the pod's own description.
constexpr std::array<ReasonRule, 6> kStartReasons = {{
    {"StartError", kCannotStart},
    {"ContainerCannotRun", kCannotStart},
    {"CreateContainerError", kCannotStart},
    {"CreateContainerConfigError", kCannotStart},
    {"RunContainerError", kCannotStart},
    {"InvalidImageName", kCannotStart},
}};

constexpr int kSignalMax = 64;  // Linux: SIGRTMAX

// Signals that a process raises in itself by what it does.
constexpr bool IsCrashSignal(int signal) {
  switch (signal) {
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGPIPE:
    case SIGXCPU:
    case SIGXFSZ:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

// The signal behind an exit, 0 for none. A shell reports a child's signal as 128 + signal.
int EffectiveSignal(int exit_code, int signal) {
  if (signal > 0 && signal <= kSignalMax) {
    return signal;
  }
  const bool is_shell_form =
      exit_code > kExitSignalBase && exit_code <= kExitSignalBase + kSignalMax;
  return is_shell_form ? exit_code - kExitSignalBase : 0;
}

ExitVerdict ClassifyCode(int exit_code) {
  constexpr int kCodeMax = 255;  // POSIX: a status is one byte
  switch (exit_code) {
    case kExitSuccess:
      return {Outcome::kSuccess, ExitCause::kCompleted};
    case kExitPreempted:
      return {Outcome::kPreempted, ExitCause::kPreempted};
    case kExitUserError:
      return {Outcome::kPermanent, ExitCause::kUserError};
    case kExitInternal:
      // A fault of ours should not cost the user the job while the budget lasts.
      return {Outcome::kRetryable, ExitCause::kInternal};
    case kExitRetryable:
      return {Outcome::kRetryable, ExitCause::kUnreachable};
    case kExitSuperseded:
      return {Outcome::kSuperseded, ExitCause::kSuperseded};
    // The three that follow would end the same way: the disk is full, the numbers are what they
    // are, the counters travel with the checkpoint.
    case kExitNotSaved:
      return {Outcome::kPermanent, ExitCause::kNotSaved};
    case kExitDiverged:
      return {Outcome::kPermanent, ExitCause::kDiverged};
    case kExitInexact:
      return {Outcome::kPermanent, ExitCause::kInexact};
    case kExitHung:
      return {Outcome::kRetryable, ExitCause::kHang};
    case kExitPortTaken:
      return {Outcome::kRetryable, ExitCause::kPortTaken};
    case kExitCannotExecute:
    case kExitNotFound:
      return kCannotStart;
    default:
      break;
  }
  if (exit_code < 0 || exit_code > kCodeMax) {
    return {Outcome::kRetryable, ExitCause::kUnknown};
  }
  return {Outcome::kPermanent, ExitCause::kProgramExit};
}

template <std::size_t kSize>
std::optional<ExitVerdict> FindReason(const std::array<ReasonRule, kSize>& rules,
                                      std::string_view reason) {
  for (const ReasonRule& rule : rules) {
    if (rule.reason == reason) {
      return rule.verdict;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSuccess:
      return "success";
    case Outcome::kPermanent:
      return "permanent";
    case Outcome::kRetryable:
      return "retryable";
    case Outcome::kPreempted:
      return "preempted";
    case Outcome::kSuperseded:
      return "superseded";
  }
  LOCKSTEP_CHECK(false, "outcome out of range");
}

std::optional<Outcome> ParseOutcome(std::string_view name) {
  for (const Outcome outcome : kOutcomes) {
    if (OutcomeName(outcome) == name) {
      return outcome;
    }
  }
  return std::nullopt;
}

std::string_view ExitCauseName(ExitCause cause) {
  switch (cause) {
    case ExitCause::kCompleted:
      return "completed";
    case ExitCause::kProgramExit:
      return "program_exit";
    case ExitCause::kUserError:
      return "user_error";
    case ExitCause::kInternal:
      return "internal";
    case ExitCause::kUnreachable:
      return "unreachable";
    case ExitCause::kPreempted:
      return "preempted";
    case ExitCause::kSuperseded:
      return "superseded";
    case ExitCause::kNotSaved:
      return "not_saved";
    case ExitCause::kDiverged:
      return "diverged";
    case ExitCause::kInexact:
      return "inexact";
    case ExitCause::kHang:
      return "hang";
    case ExitCause::kPortTaken:
      return "port_taken";
    case ExitCause::kStartError:
      return "start_error";
    case ExitCause::kOom:
      return "oom";
    case ExitCause::kKilled:
      return "killed";
    case ExitCause::kCrash:
      return "crash";
    case ExitCause::kNodeLost:
      return "node_lost";
    case ExitCause::kUnknown:
      return "unknown";
  }
  LOCKSTEP_CHECK(false, "exit cause out of range");
}

ExitVerdict ClassifyExit(int exit_code, int signal, std::string_view reason) {
  if (const std::optional<ExitVerdict> verdict = FindReason(kPodReasons, reason)) {
    return *verdict;
  }
  if (const std::optional<ExitVerdict> verdict = FindReason(kStartReasons, reason)) {
    return *verdict;
  }
  const int effective_signal = EffectiveSignal(exit_code, signal);
  const bool is_success = exit_code == kExitSuccess && effective_signal == 0;
  // The kernel may take a child of the pod while the main process goes on and ends well.
  if (reason == "OOMKilled" && !is_success) {
    return {Outcome::kRetryable, ExitCause::kOom};
  }
  if (effective_signal > 0) {
    return {Outcome::kRetryable,
            IsCrashSignal(effective_signal) ? ExitCause::kCrash : ExitCause::kKilled};
  }
  return ClassifyCode(exit_code);
}

std::string SignalName(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGQUIT:
      return "SIGQUIT";
    case SIGILL:
      return "SIGILL";
    case SIGTRAP:
      return "SIGTRAP";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGKILL:
      return "SIGKILL";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGSEGV:
      return "SIGSEGV";
    case SIGUSR2:
      return "SIGUSR2";
    case SIGPIPE:
      return "SIGPIPE";
    case SIGALRM:
      return "SIGALRM";
    case SIGTERM:
      return "SIGTERM";
    case SIGXCPU:
      return "SIGXCPU";
    case SIGXFSZ:
      return "SIGXFSZ";
    case SIGSYS:
      return "SIGSYS";
    default:
      return "signal " + std::to_string(signal);
  }
}

std::string DescribeExit(int exit_code, int signal, std::string_view reason) {
  const ExitVerdict verdict = ClassifyExit(exit_code, signal, reason);
  const int effective_signal = EffectiveSignal(exit_code, signal);
  const std::string code = "exit code " + std::to_string(exit_code);
  switch (verdict.cause) {
    case ExitCause::kCompleted:
      return "completed";
    case ExitCause::kProgramExit:
    case ExitCause::kUnknown:
      return code;
    case ExitCause::kUserError:
      return "failed by an error in the job's input (" + code + ")";
    case ExitCause::kInternal:
      return "failed by an internal error (" + code + ")";
    case ExitCause::kUnreachable:
      return "lost a peer, or a peer did not join in time (" + code + ")";
    case ExitCause::kPreempted:
      return code + ", which says that it was asked to end";  // it may be a program's own
    case ExitCause::kSuperseded:
      return "superseded by a newer pod (" + code + ")";
    case ExitCause::kNotSaved:
      return "could not save the model (" + code + ")";
    case ExitCause::kDiverged:
      return "found that the loss is no longer finite (" + code + ")";
    case ExitCause::kInexact:
      return "lost samples or used them twice (" + code + ")";
    case ExitCause::kHang:
      return "did nothing for too long (" + code + ")";
    case ExitCause::kPortTaken:
      return "found its port in use by another process (" + code + ")";
    case ExitCause::kStartError:
      // "Error" is the kubelet's word for any code but 0.
      return "could not be started (" +
             (reason.empty() || reason == "Error" ? code : std::string(reason)) + ")";
    case ExitCause::kOom:
      return "out of memory";
    case ExitCause::kKilled:
      return "killed by " + SignalName(effective_signal);
    case ExitCause::kCrash:
      return "crashed with " + SignalName(effective_signal) +
             (effective_signal == SIGBUS
                  ? "; one cause is a full /dev/shm (see the role's sharedMemory)"
                  : "");
    case ExitCause::kNodeLost:
      return "stopped by its node (" + std::string(reason) + ")";
  }
  LOCKSTEP_CHECK(false, "exit cause out of range");
  return "";  // for GCC, which without optimisation does not see that nothing comes here
}

}  // namespace lockstep
