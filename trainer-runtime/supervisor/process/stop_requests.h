#pragma once

#include <map>
#include <optional>
#include <poll.h>
#include <set>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/time.h"
#include "common/process/process_stat.h"
#include "trainer-runtime/supervisor/process/process_reaper.h"

namespace lockstep::runtime {

// How long those that were asked to end have for it, of a pod's `grace`: that ends for the
// supervisor as well, which has a message to write after the last kill.
Duration KillAfter(Duration grace);

// When the rest of a group is asked whose process with a session has ended at `ended_at`: until
// then whoever has started it may end by itself, with the exit code that it was given. At most half
// of what is left until `kill_at`: once it is asked, it has as long again. Pure.
TimePoint TurnOfRest(TimePoint ended_at, TimePoint kill_at);

// What in the group of `leader` has lost its parent, so that `reaper`, a subreaper, has adopted it:
// helpers of a program that has ended. In the order of the table. Pure.
std::vector<pid_t> LeftHelpers(const std::vector<ProcessStat>& table, pid_t leader, pid_t reaper);

// What in the group of `leader`, but for itself, handles `signal`: once asked, it is on its way to
// end, as one that saves first. In the order of the table. Pure.
std::vector<pid_t> HandlersOf(const std::vector<ProcessStat>& table, pid_t leader, int signal);

// Asks the programs of a pod to end: each its whole group, as a terminal would do it. But where a
// process of the program has a session of liblockstep, that one is asked alone: it takes a step to
// its end and saves, and needs its helpers for that, such as a loader's workers, which would die of
// the signal. When it has ended, what it has left is asked, and the rest of the group, such as the
// script that has started it, at its turn (TurnOfRest). A script that dies of the signal may leave
// its program behind, which handles it: that one has the rest of the grace. Thread: the
// supervisor's.
class StopRequests {
 public:
  // Sends `signal` to the group of `leader`, or first to `session` where that is of this group or
  // descends from its leader; 0: nobody has a session. May be repeated: then whoever was asked
  // alone hears it again as long as it has the session, and nobody's turn comes sooner.
  // Precondition: `leader` is a child that is not reaped, or is held (Hold).
  void Ask(pid_t leader, pid_t session, int signal);

  // Adds what becomes readable when Pass or TakeSettled has something to do.
  void AddEntries(std::vector<pollfd>* entries) const;

  // When Pass has something to do though nothing becomes readable; `kill_at` if that is earlier.
  std::optional<Deadline> NextTurn(std::optional<Deadline> kill_at) const;

  // Asks those whose turn has come; all are killed at `kill_at`.
  void Pass(TimePoint now, std::optional<Deadline> kill_at);

  // Whether a leader that has ended, and is not reaped, has died of the signal that its group was
  // asked by, and others of the group that handle it are on their way to end. Then it is held: its
  // end counts when TakeSettled gives it.
  bool Hold(const EndedChild& leader);

  // The leaders held of whose group nothing is on its way to end any more, or all of them. What
  // ignores the signal may be left of their groups.
  std::vector<EndedChild> TakeSettled(bool all);

  // `leader` has ended, and its end counts: its number will be another's.
  void Forget(pid_t leader);

 private:
  // A group of which one process was asked alone.
  struct Waiting {
    pid_t session = 0;
    UniqueFd session_fd;               // a pidfd; empty when it has ended
    std::optional<TimePoint> turn_at;  // of the rest; set when it has ended
    int signal = 0;
  };

  // A whole group that was asked.
  struct Asked {
    std::set<int> signals;
    // Pidfds of those that handled the signal as it came: a handler may be gone while it saves.
    std::vector<UniqueFd> ending;
  };

  void AskGroup(pid_t leader, int signal);

  std::map<pid_t, Waiting> waiting_;  // by leader
  std::map<pid_t, Asked> asked_;      // by leader
  std::map<pid_t, EndedChild> held_;  // by leader
};

}  // namespace lockstep::runtime
