#pragma once

#include <set>
#include <string>

#include "operator/api/training_job.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/observed.h"
#include "operator/scheduler/plan.h"

namespace lockstep::control {

// The cluster as the scheduler sees it: nodes, what others use, and what this job's older pods
// still hold until they are gone.
Snapshot SnapshotOf(const Observed& observed, const GangView& view);

// The same with the pods of the current gang, except those of the tasks in `leaving`.
Snapshot SnapshotBesideGang(const TrainingJob& job,
                            const Observed& observed,
                            const GangView& view,
                            const std::set<TaskId>& leaving);

// One pod of the role, called `name`.
Gang GangOfOne(const RoleSpec& role, const std::string& name);

// All pods of the job, one class for each role; pods are called by TaskName.
Gang GangOf(const TrainingJob& job, const JobTopology& topology);

}  // namespace lockstep::control
