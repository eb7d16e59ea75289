#pragma once

#include <string>
#include <vector>

#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// `sentence` says why the member's pod does not start. Adds what became of the pod on its way into
// the cluster (a LimitRange, a RuntimeClass's overhead, a policy, a webhook) against what was
// planned with: "; the cluster has changed the pod: requests.memory is 512Mi where the template
// makes it 0". Nothing where nothing stands in the plan's way.
std::string WithAdmission(std::string sentence, const Member& member, const TrainingJob& job);

// Whether any of these pods of the job asks for more than its template.
bool AskForMore(const TrainingJob& job, const std::vector<kube::Pod>& pods);

// What pods ask for beyond their templates: "worker has 2 GiB memory"; empty: nothing.
std::string DescribeRaised(const TrainingJobStatus& status);

// Writes into the status what the members' pods ask for beyond their templates. The next plan
// counts it.
void NoteAdmission(const GangView& view, DecisionBuilder* builder);

// Writes into the placement where members' pods are bound, if that is not where they were planned,
// and says so unless kube-scheduler was to choose: something took away what ties a pod to its node,
// and whoever did it does not know what else was planned there. Returns whether there are such
// pods: the view is out of date then.
bool NoteRealNodes(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
