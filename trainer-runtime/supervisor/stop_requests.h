#pragma once

#include <map>
#include <poll.h>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"
#include "common/base/unique_fd.h"

namespace lockstep::runtime {

// How long those that were asked to end have for it, of a pod's `grace`: that ends for the
// supervisor as well, which has a message to write after the last kill.
Duration KillAfter(Duration grace);

// Asks the programs of a pod to end: each its whole group, as a terminal would do it. But where a
// process of the group has a session of liblockstep, that one is asked alone, and the rest of its
// group when it has ended: it takes a step to its end and saves, and needs its helpers for that,
// such as a loader's workers, which would die of the signal. Thread: the supervisor's.
class StopRequests {
 public:
  // Sends `signal` to the group of `leader`, or first to `session` where that is of this group; 0:
  // nobody has a session. May be repeated. Precondition: `leader` is a child that is not reaped.
  void Ask(pid_t leader, pid_t session, int signal);

  // Adds what becomes readable when Pass has something to do.
  void AddEntries(std::vector<pollfd>* entries) const;

  // Asks the groups whose process with a session has ended.
  void Pass();

  // `leader` is about to be reaped: its number will be another's.
  void Forget(pid_t leader) { waiting_.erase(leader); }

 private:
  // A group whose turn comes when `session` has ended.
  struct Waiting {
    UniqueFd session;  // a pidfd
    int signal = 0;
  };

  std::map<pid_t, Waiting> waiting_;  // by leader
};

}  // namespace lockstep::runtime
