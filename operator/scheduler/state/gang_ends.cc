// When gangs will have ended.

#include <algorithm>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

std::optional<WallTime> EndOf(const GangRequest& request, WallTime now) {
  if (request.stops_at != WallTime{}) {
    return request.stops_at;
  }
  return request.run_time_max.count() == 0 ? std::nullopt
                                           : std::optional(now + request.run_time_max);
}

std::optional<WallTime> ExpectedEndOf(const GangRequest& request, WallTime now) {
  const std::optional<WallTime> stop = EndOf(request, now);
  if (request.past_runs.count == 0) {
    return stop;
  }
  const WallTime expected = now + request.past_runs.longest;
  return stop ? std::min(*stop, expected) : expected;
}

std::optional<WallTime> LearntEndOf(const GangRecord& gang) {
  const PastRuns& past = gang.request.past_runs;
  if (past.count == 0 || gang.run.started_at == WallTime{}) {
    return std::nullopt;
  }
  const WallTime expected = gang.run.started_at + past.longest;
  const WallTime stop = gang.run.stops_at;
  return stop == WallTime{} || expected < stop ? std::optional(expected) : std::nullopt;
}

}  // namespace lockstep::control
