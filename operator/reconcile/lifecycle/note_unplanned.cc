#include "operator/reconcile/lifecycle/note_unplanned.h"

#include <string>

#include "operator/reconcile/lifecycle/unplanned.h"

namespace lockstep::control {

void NoteUnplanned(bool is_edited, DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  const std::string unplanned =
      builder->observed().is_one_machine
          ? ""
          : DescribeUnplanned(builder->spec(), *status, builder->observed().missing_class);
  const ConditionChange planned = {ConditionType::kFullyPlanned,
                                   true,
                                   "FieldsPlanned",
                                   "the scheduler uses all fields about placement"};
  if (!unplanned.empty()) {
    builder->Set({ConditionType::kFullyPlanned, false, "FieldsNotPlanned", unplanned},
                 EventType::kWarning);
  } else if (FindCondition(*status, ConditionType::kFullyPlanned) == nullptr) {
    return;
  } else if (is_edited) {
    builder->Set(planned);
  } else {
    SetCondition(status, planned, builder->now());
  }
}

}  // namespace lockstep::control
