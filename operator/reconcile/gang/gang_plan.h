#pragma once

#include <set>
#include <string>

#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/observed.h"
#include "operator/scheduler/plan/plan.h"

namespace lockstep::control {

// A node with nobody on it.
SnapshotNode SnapshotNodeOf(const kube::Node& node);

// What others hold of the node.
NodeUsage UsedElsewhereOn(const std::string& node, const UsedElsewhere& used);

// The cluster as a plan for one job sees it: nodes, what others use, and what this job's older pods
// still hold until they are gone.
Snapshot SnapshotOf(const Observed& observed, const GangView& view);

// The cluster if there were no pods of jobs: only what others use of its nodes, as they are now.
Snapshot SnapshotWithoutJobs(const Observed& observed);

// SnapshotOf with the pods of the current gang, except those of the tasks in `leaving`.
Snapshot SnapshotBesideGang(const TrainingJob& job,
                            const Observed& observed,
                            const GangView& view,
                            const std::set<TaskId>& leaving);

// Notes in the snapshot which nodes the job suspects.
void MarkSuspects(const TrainingJobStatus& status, WallTime now, Snapshot* snapshot);

// What a node must have free for one pod of the role by its template, init containers and sidecars
// included.
ResourceVector RequestsOf(const RoleSpec& role);

// What a pod of the role is planned with: what its template asks for, or what became of that when
// earlier ones were admitted, where that is more.
ResourceVector PlannedRequests(const TrainingJob& job, const RoleSpec& role);

// PlannedRequests of every role, for the status.
std::vector<RoleAmount> PlannedAmounts(const TrainingJob& job);

// What a pod of the role holds in a gang of that origin, be it there or still to come.
ResourceVector HeldRequests(const TrainingJob& job, const GangOrigin& origin, Role role);

// One pod of the role, called `name`.
Gang GangOfOne(const TrainingJob& job, const RoleSpec& role, const std::string& name);

// All pods of the job, one class for each role; pods are called by TaskName.
Gang GangOf(const TrainingJob& job, const JobTopology& topology);

}  // namespace lockstep::control
