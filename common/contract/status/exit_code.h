#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// Exit codes with a meaning. All other codes from 1 to 127 are the program's own verdict.
inline constexpr int kExitSuccess = 0;
inline constexpr int kExitPreempted = 42;   // checkpointed and left; TensorFlow's own code for it
inline constexpr int kExitUserError = 64;   // manifest, data or model is wrong; BSD's EX_USAGE
inline constexpr int kExitInternal = 70;    // a fault of ours, retryable; BSD's EX_SOFTWARE
inline constexpr int kExitNotSaved = 74;    // trained, but the model is not written; BSD's EX_IOERR
inline constexpr int kExitRetryable = 75;   // peers missing, rendezvous ran out; BSD's EX_TEMPFAIL
inline constexpr int kExitSuperseded = 76;  // a newer incarnation or attempt has taken over
// The next four are above BSD's list, which ends at 78. Choice.
inline constexpr int kExitDiverged = 79;        // loss or model left the finite numbers
inline constexpr int kExitInexact = 80;         // trained, but samples were lost or used twice
inline constexpr int kExitHung = 81;            // did nothing for too long, and was ended for it
inline constexpr int kExitPortTaken = 82;       // another process listens on a port of its own
inline constexpr int kExitCannotExecute = 126;  // as shells report it
inline constexpr int kExitNotFound = 127;       // as shells report it
inline constexpr int kExitSignalBase = 128;     // 128 + signal number

// What an exit means for the job, before restart policies and budgets are asked.
enum class Outcome {
  kSuccess,     // the work is done
  kPermanent,   // trying again would end the same way
  kRetryable,   // another pod may succeed; counts against the budget
  kPreempted,   // left on request after a checkpoint; does not count
  kSuperseded,  // somebody newer does the work; says nothing about the job
};

inline constexpr std::array<Outcome, 5> kOutcomes = {Outcome::kSuccess,
                                                     Outcome::kPermanent,
                                                     Outcome::kRetryable,
                                                     Outcome::kPreempted,
                                                     Outcome::kSuperseded};

// "success", "permanent", "retryable", "preempted", "superseded".
std::string_view OutcomeName(Outcome outcome);
std::optional<Outcome> ParseOutcome(std::string_view name);

// Why a process ended; the closed list by which restarts are counted and reported.
enum class ExitCause {
  kCompleted,    // it finished its work
  kProgramExit,  // it ended itself with a code of its own
  kUserError,
  kInternal,
  kUnreachable,  // a peer was lost, or did not come in time
  kPreempted,
  kSuperseded,
  kNotSaved,    // it trained to the end and could not write the model
  kDiverged,    // its loss or model left the finite numbers
  kInexact,     // it trained to the end with samples lost or used twice
  kHang,        // it did nothing for too long
  kPortTaken,   // another process listens on a port of its own
  kStartError,  // it could not be started
  kOom,         // out of memory
  kKilled,      // a signal from outside
  kCrash,       // a signal it raised itself: abort, bad memory access, arithmetic
  kNodeLost,    // the node went away, or took the pod back
  kUnknown,     // nobody can say
};

inline constexpr std::array<ExitCause, 18> kExitCauses = {ExitCause::kCompleted,
                                                          ExitCause::kProgramExit,
                                                          ExitCause::kUserError,
                                                          ExitCause::kInternal,
                                                          ExitCause::kUnreachable,
                                                          ExitCause::kPreempted,
                                                          ExitCause::kSuperseded,
                                                          ExitCause::kNotSaved,
                                                          ExitCause::kDiverged,
                                                          ExitCause::kInexact,
                                                          ExitCause::kHang,
                                                          ExitCause::kPortTaken,
                                                          ExitCause::kStartError,
                                                          ExitCause::kOom,
                                                          ExitCause::kKilled,
                                                          ExitCause::kCrash,
                                                          ExitCause::kNodeLost,
                                                          ExitCause::kUnknown};

// "completed", "program_exit", ..., "node_lost", "unknown".
std::string_view ExitCauseName(ExitCause cause);

struct ExitVerdict {
  Outcome outcome = Outcome::kRetryable;
  ExitCause cause = ExitCause::kUnknown;

  friend bool operator==(const ExitVerdict&, const ExitVerdict&) = default;
};

// Classifies one ended container. `signal` is 0 when the process ended itself or the reporter does
// not say; `reason` is the kubelet's or the pod's word ("OOMKilled", "Evicted", "StartError", ...),
// the pod's where both exist; unknown words are ignored. Total: every input has a verdict.
ExitVerdict ClassifyExit(int exit_code, int signal, std::string_view reason);

// "SIGKILL" for 9; "signal 42" where no name is known.
std::string SignalName(int signal);

// One phrase for people: "killed by SIGKILL", "exit code 3", "out of memory".
std::string DescribeExit(int exit_code, int signal, std::string_view reason);

}  // namespace lockstep
