#include "common/process/silence.h"

#include <algorithm>

namespace lockstep {
namespace {

// Choice: with so many processes on a core each still gets it within a second.
constexpr double kEasyProcessesPerCore = 4;

// Choice. Where many starve they must not spend what is left of the cores on looking at each other.
constexpr int kLooksUntilAct = 20;

// Choice: above a look and a heartbeat, beside a core that others want, too.
constexpr Duration kUntilTold = std::chrono::seconds(1);

}  // namespace

SilenceLimits LimitsOf(Duration silent_after, double processes_per_core) {
  const double scale = std::max(1.0, processes_per_core / kEasyProcessesPerCore);
  SilenceLimits limits;
  limits.suspect = silent_after;
  limits.hard = 20 * silent_after;  // 30 s
  limits.act =
      std::min(limits.hard,
               std::chrono::duration_cast<Duration>(silent_after * 10 / 3 * scale));  // 5 s
  limits.look = limits.act / kLooksUntilAct;
  return limits;
}

Duration LossNoticedWithin(Duration silent_after) {
  return LimitsOf(silent_after, 1).act + kUntilTold;
}

bool IsSuspect(Duration silent, const SilenceLimits& limits, Sight sight) {
  const bool is_excused = sight == Sight::kStarved || sight == Sight::kStrained;
  return silent >= limits.suspect && !is_excused;
}

bool IsGivenUp(Duration silent,
               const SilenceLimits& limits,
               Sight sight,
               bool is_missed_by_others) {
  if (silent < limits.suspect) {
    return false;
  }
  switch (sight) {
    case Sight::kStopped:
      return true;
    case Sight::kStarved:
      return silent >= limits.hard;
    case Sight::kStrained:  // what holds up one process of a host may hold up its neighbours, too
      return silent >= limits.act;
    case Sight::kUnseen:
    case Sight::kRunning:
      return is_missed_by_others || silent >= limits.act;
  }
  return false;
}

}  // namespace lockstep
