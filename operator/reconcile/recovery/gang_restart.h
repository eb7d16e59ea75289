#pragma once

#include <string>
#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/failure.h"

namespace lockstep::control {

// Whether the failure costs nothing of backoffLimit.
bool IsFree(const Failure& failure);

// Writes what the failures of one turn cost into the status, while the placement still says where
// their pods were; ends the job, and returns false, where the budget does not allow it.
// Precondition: there is a failure.
bool SpendBudget(const std::vector<Failure>& failures, DecisionBuilder* builder);

// "incident 2 of 6 allowed", after it was spent.
std::string CostOf(const Failure& failure, const DecisionBuilder& builder);

// Whether the gang, if it is started anew now, has broken before it was steady more than once in a
// row.
bool BreaksAgainSoon(const DecisionBuilder& builder);

// Counts one start of the gang, for the origin's cause, and whether it came soon after the one
// before.
void CountGangStart(const Failure& origin, DecisionBuilder* builder);

// Starts the whole gang anew: one restart is counted, for the origin's cause; attempt and epoch
// rise and the placement is given up, which makes every pod stale. The next gang is planned when
// all of them have ended, and after a pause if it has broken soon after its start again and again.
// `why_new_pods`: what people are told where a relaunch was asked for; empty: it was not.
// Precondition: its budget is spent.
void RestartGang(const Failure& origin, const std::string& why_new_pods, DecisionBuilder* builder);

// Starts the whole gang anew where its attempt has lost its ports: no program did anything wrong,
// so it costs no budget. Returns whether it was so.
bool RestartOnOtherPorts(DecisionBuilder* builder);

// Rolls a gang back of which not all pods could start: attempt and epoch rise, the placement is
// given up, and the job pauses. Nothing is counted as a restart.
void RollBackGang(const std::string& reason, const std::string& sentence, DecisionBuilder* builder);

// Gives up the gang without counting: attempt and epoch rise so that its pods are stale at once.
void GiveUpGang(DecisionBuilder* builder);

// The same in the status alone.
void GiveUpPlaces(PlacementStatus* gang, RecoveryStatus* recovery);

}  // namespace lockstep::control
