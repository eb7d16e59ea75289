#include "operator/scheduler/state/past_runs.h"

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

struct Amount {
  std::string number;
  std::string unit;
};

// To one place where a day more or less would be much: "2.5 days".
Amount AmountOf(std::chrono::seconds run_time) {
  const Unit unit = UnitFor(run_time);
  constexpr int64_t kExactBelow = 10;
  const int64_t tenths = (10 * run_time + unit.length / 2) / unit.length;
  if (unit.length < std::chrono::hours(24) || tenths >= 10 * kExactBelow || tenths % 10 == 0) {
    return {std::to_string((run_time + unit.length / 2) / unit.length), unit.name};
  }
  return {std::to_string(tenths / 10) + "." + std::to_string(tenths % 10), unit.name};
}

}  // namespace

std::string ToText(const PastRuns& runs) {
  const Amount least = AmountOf(runs.shortest);
  const Amount most = AmountOf(runs.longest);
  std::string text = "the last " + Plural(runs.count, "run") + " of similar jobs took ";
  if (least.unit != most.unit) {
    text += least.number + " " + least.unit + " to ";
  } else if (least.number != most.number) {
    text += least.number + " to ";
  }
  return text + most.number + " " + most.unit;
}

}  // namespace lockstep::control
