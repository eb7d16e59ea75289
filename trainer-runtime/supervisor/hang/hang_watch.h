#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"

namespace lockstep::runtime {

// What is known of the program that stands for one local rank, at one look.
struct ProcessActivity {
  bool is_running = false;        // and is seen, by whoever tells this
  bool is_held_up = false;        // by us: nobody takes its output, so it may have to wait
  bool is_ready = false;          // a part of it runs, or waits for a core
  bool is_stopped = false;        // a part of it, by a signal or a debugger
  int64_t output_bytes = 0;       // ever written
  int64_t report_count = 0;       // of steps, epochs and phases that it has told of
  std::map<pid_t, Duration> cpu;  // of each process that belongs to it
};

struct HungProcess {
  int local_rank = 0;
  bool is_stopped = false;
  Duration idle{0};  // since it did something last, exact to one look

  friend bool operator==(const HungProcess&, const HungProcess&) = default;
};

// Which programs of a pod hang: they run, and for a limit have written nothing, told of nothing,
// begun or ended no process, used next to no processor time, and not waited for a core. Ranks that
// wait for one that hangs look the same, so those that hang at once are judged together: see
// CulpritsAmong. Pure.
class HangWatch {
 public:
  // Precondition (checked): `limit` is positive.
  HangWatch(Duration limit, int process_count);

  // How long to wait between two looks.
  Duration interval() const { return interval_; }

  // Takes what is seen at `now`, by local rank. Returns all that hang; empty as long as none has
  // for the limit. A stopped one is told at the limit, others two looks later: so a pod whose
  // program was stopped ends before those of the ranks that wait for it, and is the one that is
  // blamed.
  std::vector<HungProcess> Look(TimePoint now, const std::vector<ProcessActivity>& seen);

 private:
  struct Watched {
    ProcessActivity last;
    TimePoint active_at;
    Duration share_left{0};  // of a core, that may be used and is next to nothing
  };

  const Duration limit_;
  const Duration interval_;
  const Duration share_max_;
  std::optional<TimePoint> looked_at_;
  std::vector<Watched> watched_;  // by local rank
};

// Of those that hang, the ones that the others wait for: stopped ones; else the one that has done
// nothing for longest, if by more than two looks. All where that cannot be told.
std::vector<HungProcess> CulpritsAmong(const std::vector<HungProcess>& hung, Duration interval);

}  // namespace lockstep::runtime
