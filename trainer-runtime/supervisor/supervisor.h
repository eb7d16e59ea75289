#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/environment.h"
#include "common/contract/status/termination_message.h"
#include "trainer-runtime/supervisor/hang/hang_court.h"
#include "trainer-runtime/supervisor/output/torchrun_summary.h"
#include "trainer-runtime/supervisor/program_hold.h"

namespace lockstep::runtime {

// What the caller may want to show in a status document.
struct SupervisorEvent {
  enum class Kind {
    kStarted,   // a process runs
    kEnded,     // a process ended: exit_code, signal
    kStopping,  // all were asked to end
    kKilling,   // the grace period is over
  };

  Kind kind = Kind::kStarted;
  int local_rank = -1;  // -1 where all are meant
  pid_t pid = 0;
  int exit_code = 0;  // 128 + signal when a signal ended it
  int signal = 0;     // 0 when it ended itself
  TimePoint at{};     // of kEnded: when that was seen
  // Whose end exit_code and signal are: a rank that torchrun, which the process was, had started.
  std::optional<RankEnd> launched{};
  std::string why{};  // of kEnded, where it is told apart from what the process wrote; else empty
};

// One process to run.
struct SupervisedProcess {
  EnvironmentMap environment;  // complete
  std::string prefix;          // before each line of output; empty: none
  std::optional<int> rank;     // absent for processes that are no ranks
};

// What one start of a process has besides what all have.
struct ProcessStart {
  std::vector<std::string> arguments;  // after those of the command
  EnvironmentMap environment;          // over that of the process
  UniqueFd input;                      // becomes its standard input; empty: /dev/null
  UniqueFd kept;                       // inherited, under its number unless forked; empty: none
  std::string kept_variable;           // of `environment`: tells that number
};

struct SuperviseOptions {
  std::vector<std::string> command;          // program and arguments; not empty
  std::vector<SupervisedProcess> processes;  // at least one
  Duration grace = kDefaultGrace;            // of the pod: from SIGTERM to its end
  std::string termination_message_file;      // empty: none
  int output_fd = 1;
  int error_fd = 2;
  Logger* logger = nullptr;  // outlives the call; required
  // Modules that an interpreter for each process is kept with, which then forks it
  // (warm_interpreter.h). Precondition of any (checked): `command` is one of ParsePythonCommand's.
  std::vector<std::string> warm;
  // A process that for so long does nothing is ended (HangWatch says what that is, Watchdog how).
  // Null: nobody is watched.
  std::optional<Duration> hung_after;
  std::string torchrun_error_file;   // ParseErrorFile's; empty: none
  bool has_peers_elsewhere = false;  // the processes are ranks, and other pods have some, too
  // All called on this thread; each may be empty.
  std::function<void(const SupervisorEvent&)> on_event;
  std::function<Result<ProcessStart>(int local_rank)> on_start;  // before each start
  // Whether a process that failed is started again beside the others, which run on. Not asked once
  // all have been asked to end. Empty: never.
  std::function<bool(const SupervisorEvent& ended)> wants_again;
  // What an end comes to by what the process itself has said of its work: changes exit_code, signal
  // and why. A signal that came after all work was done is no failure, an exit code 0 before that
  // no success. Not asked of that code once all have been asked to end. Empty: ends stand.
  std::function<void(SupervisorEvent* ended)> judge;
  // Which process has a session of liblockstep, and so is asked to end before the others of its
  // group are (StopRequests); 0: none. Empty: nobody has.
  std::function<pid_t(int local_rank)> session_of;
  // How often a process has told of progress; a change says that it does not hang. Empty: nothing
  // is told.
  std::function<int64_t(int local_rank)> count_reports;
  HangPorts court;  // of the watchdog
  // Where all processes are started again after an end, as often as it says; outlives the call.
  // Null: nowhere.
  ProgramHold* hold = nullptr;
  // Whether the end of these processes may be held. Empty: yes.
  std::function<bool()> may_hold;
  // Whether all work was done, so that who was asked to end has not ended for that. Empty: unknown.
  std::function<bool()> is_done;
  // Adds to the termination message what the processes have told. All have ended.
  std::function<void(TerminationMessage*)> add_words;
};

// Runs the command in all processes until they have ended, and gives the exit code that the pod
// should have: 0 when all succeeded, else that of the first process that failed (its own code, or
// 128 + signal; 81 where it was ended because it hung), 127 when the program does not exist, 126
// when it cannot be executed, 75 when the machine has no process left.
//
// - torchrun exits with 1 whatever became of its ranks: where the process tells, by torchrun's
//   summary or error file, how a rank of its own ended, that is how the process has failed.
// - A process that a signal ends after all work was done has ended with 0, and one that ends with 0
//   before its work is done has failed, where it tells how far it is (judge).
// - Output goes on in whole lines as a terminal shows them, cut after 16 KiB; where a process has
// no
//   prefix and is alone, byte by byte.
// - Signals TERM, INT, HUP, USR1, USR2 go on to every process's group, as a terminal would do it.
// - Of TERM and INT a process with a session hears first, and alone (StopRequests).
// - After TERM or INT, or when one process fails that is not wanted again, all are asked to end;
//   what has not ended shortly before the grace period is over, or 2 s after a failure, is killed.
//   After a failure one in a call of torch.distributed is killed sooner; one that may be saving has
//   the grace period (Survivors). If this process dies, the kernel kills them.
// - Where there is a hold, all processes that have ended, one of them by a failure, are started
// again
//   when the hold says so; and all are ended, and started again, when it asks for that. Nothing
//   that they left runs then. A process that could not be started ends it all.
// - When a process ends, what it left running is killed, but for what handles the signal of a stop
//   that the process has died of, which has its grace (StopRequests); at the end nothing is left.
// - The termination message says outcome, reason, culprit and the end of its standard error, unless
//   the program wrote one. The reason is the exception that ended the culprit, or its last line.
//
// Takes charge of all child processes of this process. Blocks. Thread: one, the main thread.
int Supervise(const SuperviseOptions& options);

}  // namespace lockstep::runtime
