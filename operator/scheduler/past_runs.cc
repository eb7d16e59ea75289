#include "operator/scheduler/past_runs.h"

#include "common/base/plural.h"

namespace lockstep::control {
namespace {

struct Unit {
  std::chrono::seconds length;
  const char* name;
};

// The largest of which the run is two at least.
Unit UnitFor(std::chrono::seconds run_time) {
  for (const Unit unit : {Unit{std::chrono::hours(24), "days"},
                          Unit{std::chrono::hours(1), "h"},
                          Unit{std::chrono::minutes(1), "min"}}) {
    if (run_time >= 2 * unit.length) {
      return unit;
    }
  }
  return {std::chrono::seconds(1), "s"};
}

int64_t Rounded(std::chrono::seconds run_time, const Unit& unit) {
  return (run_time + unit.length / 2) / unit.length;
}

}  // namespace

std::string ToText(const PastRuns& runs) {
  const Unit unit = UnitFor(runs.longest);
  const int64_t least = Rounded(runs.shortest, unit);
  const int64_t most = Rounded(runs.longest, unit);
  return "the last " + Plural(runs.count, "run") + " of its kind took " +
         (least < most ? std::to_string(least) + " to " : "") + std::to_string(most) + " " +
         unit.name;
}

}  // namespace lockstep::control
