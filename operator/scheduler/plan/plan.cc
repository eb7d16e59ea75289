#include "operator/scheduler/plan/plan.h"

#include "operator/scheduler/plan/arrangement.h"
#include "operator/scheduler/plan/refusal.h"
#include "operator/scheduler/plan/room.h"

namespace lockstep::control {

LOCKSTEP_DEFINE_VALUE_MEMBERS(PodClass);

PlanResult PlanGang(const Snapshot& snapshot, const Gang& gang, const PlanOptions& options) {
  const std::vector<PodClass> classes = MergedClasses(gang, snapshot.is_one_machine);
  if (classes.empty()) {
    return Plan{};
  }
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
