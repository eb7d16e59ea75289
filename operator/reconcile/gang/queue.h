#pragma once

#include <vector>

#include "common/base/copy_on_write.h"
#include "common/base/time.h"
#include "operator/api/training_job.h"
#include "operator/reconcile/observed.h"
#include "operator/scheduler/plan.h"

namespace lockstep::control {

// Whether runPolicy.managedBy leaves the job to this operator.
bool IsOurs(const TrainingJob& job);

// Whether the job waits for pods that may never go: its own that do not end, or those of an earlier
// job that hold names. The room it asks for is not held for it meanwhile.
bool WaitsForPods(const TrainingJobStatus& status);

// Whether the job stands in the queue: it wants to run, has no place, and nothing but room is
// missing. Jobs that came later may not take room from such a job. One that pauses after it could
// not start holds up nobody; one that pauses before it restarts keeps its place.
bool WaitsForRoom(const TrainingJob& job, WallTime now);

// Whether the gang would have room if nobody else used these nodes. One that would not holds up
// nobody, however long it waits.
bool FitsEmptyCluster(const Gang& gang, const CopyOnWrite<std::vector<kube::Node>>& nodes);

// More gangs ahead than this are not looked at one by one: the job waits. Choice: two plans for
// each stay within some milliseconds on hundreds of nodes.
inline constexpr std::size_t kGangsAheadMax = 64;

// A plan for `gang` on `snapshot`, the cluster as it is, for which no gang of `observed.ahead` has
// to wait longer: each one that would fit if all that is older than it had ended must still fit
// beside the plan and beside what younger jobs hold. A gang that would not fit even without the
// plan is not harmed by it, and those that would not fit an empty cluster are not to be among them.
// Otherwise kQueue, with the gang that it waits behind.
PlanResult PlanInTurn(const Snapshot& snapshot, const Gang& gang, const Observed& observed);

}  // namespace lockstep::control
