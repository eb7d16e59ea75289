#pragma once

#include <deque>
#include <optional>

#include "common/base/strong_id.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// How fast a program steps now, by the steps that it was seen at: whoever goes on from a checkpoint
// is timed from there. Pure. Thread: one at a time.
class StepPace {
 public:
  // The program stands at `step`. One behind the last begins anew.
  void Note(Step step, TimePoint now);

  // Forgets everything: the program starts anew.
  void Reset() { marks_.clear(); }

  // How long the program takes to come to `steps_total`; null where no pace is known yet.
  std::optional<Duration> Until(int64_t steps_total) const;

 private:
  struct Mark {
    Step step;
    TimePoint at;
  };

  std::deque<Mark> marks_;  // oldest first, bounded
};

}  // namespace lockstep::runtime
