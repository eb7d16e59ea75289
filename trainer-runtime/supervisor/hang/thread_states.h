#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

namespace lockstep::runtime {

// Where one thread of a process stands, as the kernel tells it.
struct ThreadState {
  pid_t thread = 0;
  std::string name;      // of the thread; empty where it is not told
  char state = '?';      // as ProcessStat's
  std::string waits_in;  // the kernel's function, such as "futex_wait_queue"; empty: not told

  friend bool operator==(const ThreadState&, const ThreadState&) = default;
};

// The first `count_max` threads of a process by number, the main one first. Empty where it is gone.
std::vector<ThreadState> ReadThreadStates(pid_t pid, std::size_t count_max);

// "sleeps in do_poll", "is stopped by a signal", "runs".
std::string DescribeThreadState(const ThreadState& state);

// Whether the process has a handler of its own for `signal`: Python's faulthandler, glog and others
// write stacks in theirs. False where it is gone.
bool CatchesSignal(pid_t pid, int signal);

}  // namespace lockstep::runtime
