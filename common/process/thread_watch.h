#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"
#include "common/process/silence.h"

namespace lockstep {

// How the kernel lets one thread run, at one moment. Source: proc(5), and for the times
// Documentation/scheduler/sched-stats.rst.
struct ThreadSample {
  pid_t thread = 0;
  char state = '?';                // as ProcessStat's
  std::optional<Duration> ran;     // on a core, since it began; null: not told
  std::optional<Duration> waited;  // for a core, up to when it got one last; null: not told
};

// What two looks at the same threads, `between` apart, say of them. No `before`: this is the first
// look, at which a thread that wants to run counts as starved. Empty `now`: kUnseen.
// `is_host_pressed`: somebody on their host waits for a core nearly all the time. Pure.
Sight JudgeThreads(const std::vector<ThreadSample>& before,
                   const std::vector<ThreadSample>& now,
                   Duration between,
                   bool is_host_pressed);

// The share of the last 10 s, in percent, in which some process waited for a core, of a text as
// /proc/pressure/cpu has it; 0 where it reads otherwise. Pure.
double CpuPressure(std::string_view text);

// Looks at threads of this host, by proc(5). A look costs some 20 us for each thread.
// Thread: one.
class ThreadWatch {
 public:
  // `root`: where the file system begins; "" but in tests.
  explicit ThreadWatch(std::string root = "") : root_(std::move(root)) {}

  // One thread, by its number in this process's PID namespace.
  Sight LookAtThread(pid_t thread, TimePoint now);

  // All threads of a process.
  Sight LookAtProcess(pid_t pid, TimePoint now);

 private:
  struct Look {
    TimePoint at;
    std::vector<ThreadSample> samples;
  };

  Sight Compare(pid_t key, std::vector<ThreadSample> samples, TimePoint now);

  std::string root_;
  std::map<pid_t, Look> looks_;  // the newest of each thread or process; old ones are forgotten
};

}  // namespace lockstep
