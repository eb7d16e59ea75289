#pragma once

#include <optional>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"

namespace lockstep::runtime {

struct EndedChild {
  pid_t pid = 0;
  int exit_code = 0;  // 128 + signal when a signal ended it
  int signal = 0;     // 0 when it ended itself
  TimePoint at;       // when somebody looked
};

// A child process that has ended and is not yet reaped, adopted ones included; null when there is
// none. It keeps its number until ReapChild. `now` is its `at`: all that one look finds have ended
// together, however long it takes to see to each.
std::optional<EndedChild> FindEndedChild(TimePoint now);

// Reaps a child process that has ended. Precondition (checked): FindEndedChild gave it.
void ReapChild(pid_t pid);

// Kills every child process of this one, and so on with those that it adopts thereby, until none
// is left but those of `kept`. Returns false if some are still there at the deadline. Needs: this
// process is a subreaper.
bool KillAllChildren(Deadline deadline, const std::vector<pid_t>& kept = {});

// While it lives, processes whose parent ends become children of this process (prctl(2)).
class SubreaperScope {
 public:
  SubreaperScope();
  ~SubreaperScope();
  SubreaperScope(const SubreaperScope&) = delete;
  SubreaperScope& operator=(const SubreaperScope&) = delete;
};

}  // namespace lockstep::runtime
