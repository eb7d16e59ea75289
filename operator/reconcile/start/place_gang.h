#pragma once

#include <string>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Finds room for the whole gang and writes down who goes where; pods follow in the same decision,
// after this status is stored. Without room, or while others have not granted it or something of
// before is in the way, it says so and the gang waits.
void PlaceGang(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
