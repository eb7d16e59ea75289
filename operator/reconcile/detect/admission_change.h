#pragma once

#include <string>

#include "operator/api/training_job.h"
#include "operator/kube/objects.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// What became of a pod on its way into the cluster (a LimitRange, a RuntimeClass's overhead, a
// webhook) against what was planned with: "requests.memory is 512Mi where the template makes it 0";
// empty where nothing stands in the plan's way.
std::string DescribeAdmission(const RoleSpec& role, const kube::Pod& pod);

// Writes into the status what the members' pods ask for beyond their templates. The next plan
// counts it.
void NoteAdmission(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
