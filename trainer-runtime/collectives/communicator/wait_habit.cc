#include "trainer-runtime/collectives/communicator/wait_habit.h"

#include <algorithm>

namespace lockstep::runtime {

bool WaitHabit::ShouldTry() {
  if (waits_left_ > 0) {
    --waits_left_;
    return false;
  }
  return true;
}

void WaitHabit::Record(bool has_paid) {
  if (has_paid) {
    losses_ = 0;
    rest_ = kRestMin;
    return;
  }
  if (++losses_ >= losses_max_) {
    losses_ = losses_max_ - 1;  // after the rest, one more loss is enough
    waits_left_ = rest_;
    rest_ = std::min(2 * rest_, kRestMax);
  }
}

}  // namespace lockstep::runtime
