#pragma once

#include <set>
#include <string>

#include "operator/api/job/training_job.h"
#include "operator/capacity/sight/provisioning_sight.h"
#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// The placeholder pods of a job with scheduling.provisioning: Pods, one for each pod of its gang.
// `job` has its status as decided so far. Precondition: its ask is open, and of placeholder pods.

// Of all of them.
std::set<std::string> PlaceholderNames(const TrainingJob& job);

// Why they come to nothing, all of them: whatever the server refuses for one it would refuse for a
// pod of the gang, and nodes would be bought that nobody uses. Empty: nothing is known against
// them.
std::string WhyPlaceholdersFail(const TrainingJob& job, const ProvisioningSight& sight);

// Makes those that are missing, and marks those that are seen without the mark by which autoscalers
// know them: as many as a turn may, the others in the turns that their news give.
void ShowPlaceholders(const TrainingJob& job, DecisionBuilder* builder);

}  // namespace lockstep::control
