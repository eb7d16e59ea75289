#pragma once

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// Says in the condition FullyPlanned what of the manifest no plan heeds. That all is heeded again
// is news only where the manifest has changed (`is_edited`): a priority class that is there again,
// or whose gang has gone, is told of by what the job waits for, and a gang keeps its priority
// whatever a new class of that name says.
void NoteUnplanned(bool is_edited, DecisionBuilder* builder);

}  // namespace lockstep::control
