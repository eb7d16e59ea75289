#include "operator/scheduler/plan.h"

#include <algorithm>
#include <optional>

#include "operator/scheduler/arrangement.h"
#include "operator/scheduler/refusal.h"
#include "operator/scheduler/room.h"

namespace lockstep::control {
namespace {

bool AsksForHostPort(const PodClass& pod_class) {
  return std::any_of(pod_class.request.others.begin(),
                     pod_class.request.others.end(),
                     [](const auto& asked) { return asked.name.starts_with(kHostPortPrefix); });
}

// The snapshot with nodes that offer each port of theirs that is asked for, once; null where none
// is. On one machine pods have ports of their own.
std::optional<Snapshot> WithHostPorts(const Snapshot& snapshot,
                                      const std::vector<PodClass>& classes) {
  if (std::none_of(classes.begin(), classes.end(), AsksForHostPort)) {
    return std::nullopt;
  }
  Snapshot offered = snapshot;
  for (const PodClass& pod_class : classes) {
    for (const NamedAmount& asked : pod_class.request.others) {
      for (SnapshotNode& node : offered.nodes) {
        if (asked.name.starts_with(kHostPortPrefix)) {
          node.allocatable.Set(asked.name, snapshot.is_one_machine ? kPodsUnlimited : 1);
        }
      }
    }
  }
  return offered;
}

}  // namespace

PlanResult PlanGang(const Snapshot& as_found, const Gang& gang, const PlanOptions& options) {
  const std::vector<PodClass> classes = MergedClasses(gang);
  if (classes.empty()) {
    return Plan{};
  }
  const std::optional<Snapshot> offered = WithHostPorts(as_found, classes);
  const Snapshot& snapshot = offered ? *offered : as_found;
  const RoomSurvey survey = SurveyOf(snapshot);
  if (auto broken = BrokenBound(survey, classes)) {
    return *std::move(broken);
  }
  const ArrangeResult arranged = Arrange(classes, survey.open, options.search_steps_max);
  if (arranged.fills) {
    return PlanOf(classes, survey.open, *arranged.fills);
  }
  return NoArrangement(classes, /*is_proved=*/!arranged.reached_limit);
}

}  // namespace lockstep::control
