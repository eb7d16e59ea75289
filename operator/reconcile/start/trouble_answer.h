#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/trouble.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Answers what is wrong with a gang that has its places; of one with which nothing is wrong it is
// said when all of it runs.
void AnswerTrouble(const GangView& view, Trouble trouble, DecisionBuilder* builder);

// Of a gang with which nothing is wrong: joins the newest meeting and says when all of it runs.
void NoteHealth(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
