#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/contract/status/hang_evidence.h"
#include "trainer-runtime/supervisor/hang/hang_court.h"
#include "trainer-runtime/supervisor/hang/hang_watch.h"
#include "trainer-runtime/supervisor/process/process_table.h"

namespace lockstep::runtime {

struct WatchdogOptions {
  Duration limit{0};                 // positive
  std::vector<std::string> names;    // of the processes, by local rank: "rank 3"
  bool has_peers_elsewhere = false;  // ranks in other pods, for which these may wait
  HangPorts court;
  std::string hang_socket;   // kHangSocketVariable of the programs
  Logger* logger = nullptr;  // outlives the watchdog
  std::string process_folder = "/proc";
};

// What the supervisor knows of one process.
struct WatchedProcess {
  pid_t pid = 0;  // 0: it does not run
  bool is_held_up = false;
  int64_t output_bytes = 0;
  int64_t report_count = 0;
};

// Ends programs of a pod that hang (HangCourt says which by evidence, else HangWatch), after their
// stacks are in the log: where each thread stands by the kernel, always; and where a process has a
// handler for SIGABRT, as Python's faulthandler has, what that writes to its standard error.
// Nothing is sent to one that has none: it would only die of it. Thread: the supervisor's, whose
// children the programs are.
class Watchdog {
 public:
  explicit Watchdog(WatchdogOptions options);

  // When Look is to be called next.
  TimePoint next_look() const { return next_look_; }

  // Looks at all processes, by local rank, and ends what hangs. `helpers` are children of this
  // process that are no programs; any others are orphans that some program has left, and whose work
  // counts for all, as it is not known whose they are. Call at next_look(), not before all that
  // have ended are reaped.
  void Look(TimePoint now,
            const std::vector<WatchedProcess>& processes,
            const std::vector<pid_t>& helpers);

  // A program is about to start: what was said of the one before it is forgotten.
  void NoteStart(int local_rank);

  // Why the program that stood last for `local_rank` was ended by this watchdog, in one sentence;
  // null where it was not.
  const std::optional<std::string>& ReasonFor(int local_rank) const;

  // That sentence, with where Python stood by the stacks that it has written, unless it says so.
  // Precondition: there is one.
  std::string ReasonWith(int local_rank, const std::string& python_place) const;

 private:
  // One that is being ended.
  struct Ending {
    pid_t pid = 0;
    Deadline killed_at = Deadline::At(TimePoint());
  };

  ProcessActivity ActivityOf(const WatchedProcess& process,
                             const std::vector<ProcessStat>& table,
                             const std::vector<ProcessStat>& adopted) const;
  void TellUnseen(const std::vector<WatchedProcess>& processes,
                  const std::vector<ProcessActivity>& seen);
  HangLook LookAround(const std::vector<std::vector<pid_t>>& families) const;
  void HearCourt(TimePoint now,
                 const std::vector<WatchedProcess>& processes,
                 const std::vector<ProcessStat>& table);
  void EndIdle(TimePoint now,
               const std::vector<WatchedProcess>& processes,
               const std::vector<ProcessStat>& table,
               const std::vector<HungProcess>& hung);
  void Condemn(int local_rank, std::string reason);
  void LogThreads(int local_rank, const std::vector<ProcessStat>& family);
  void End(int local_rank, pid_t pid, TimePoint now, const std::vector<ProcessStat>& family);
  void KillOverdue(TimePoint now, const std::vector<WatchedProcess>& processes);

  const WatchdogOptions options_;
  HangWatch watch_;
  TimePoint next_look_;
  int unseen_looks_ = 0;                             // in a row
  std::vector<std::optional<std::string>> reasons_;  // by local rank
  std::vector<std::optional<Ending>> endings_;       // by local rank
  HangCourt court_;                                  // last: its thread ends before what it uses
};

}  // namespace lockstep::runtime
