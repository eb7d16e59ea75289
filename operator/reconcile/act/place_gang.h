#pragma once

#include "operator/reconcile/act/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Finds room for the whole gang and writes down who goes where; pods follow in the same decision,
// after this status is stored. Where there is no room, says what is missing, and ends a job that
// has waited too long. Precondition: the job has no places.
void PlaceGang(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
