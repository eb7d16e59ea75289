#pragma once

#include <string>
#include <vector>

#include "operator/api/job/provisioning.h"
#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// What people are told of an ask for room (ask_capacity.h).

// Conditions of a ProvisioningRequest. Source: autoscaling.x-k8s.io/v1, types.go.
inline constexpr const char* kAccepted = "Accepted";
inline constexpr const char* kProvisioned = "Provisioned";

// What the operator lacks to ask by ProvisioningRequests.
inline constexpr const char* kNotFollowed =
    "with scheduling.provisioning: ProvisioningRequest, the job needs ProvisioningRequests of "
    "autoscaling.x-k8s.io/v1, but this operator does not watch them or the cluster does not have "
    "this kind. Install a cluster autoscaler that serves ProvisioningRequests, and set "
    "provisioning.enabled of the chart (the flag --provisioning)";

bool IsByPods(const OpenAsk& ask);

// The one of that name; null: none is seen.
const CapacityObject* FindNamed(const std::vector<CapacityObject>& objects,
                                const std::string& name);

// The request of the ask's number, whoever's it is; null: none is seen.
const CapacityObject* OpenRequest(const DecisionBuilder& builder);

// What the condition says, cut to a length that can be read: its message, else its reason.
std::string MessageIn(const Json& conditions, const char* type);

// The open ask: "ProvisioningRequest mnist-1234-1 (check-capacity...)".
std::string RequestText(const CapacityAsk& ask, const DecisionBuilder& builder);

// Why an object of the open ask cannot be made; empty: nothing is known against it.
std::string ObstacleOf(const DecisionBuilder& builder);

// Which object of the open ask is not as it was made, and how; empty: none is seen that is not.
// `job` is as it has been decided so far.
std::string WhyNotAsAsked(const TrainingJob& job, const ProvisioningSight& sight);

// How the ask stands, for the condition Scheduled.
std::string DescribeAsk(const DecisionBuilder& builder);

// How the ask stood when the wait was over: "; ..."; empty: there is nothing to tell.
std::string DescribePastAsk(const DecisionBuilder& builder);

// Events when the request of the open ask is there, and when it cannot be made: each once, by what
// the condition Scheduled said before.
void SayWhatBecameOfIt(DecisionBuilder* builder);

// A warning, unless the condition Scheduled has those words already.
void WarnOnce(const std::string& reason, const std::string& words, DecisionBuilder* builder);

}  // namespace lockstep::control
