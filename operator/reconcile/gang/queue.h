#pragma once

#include <string>
#include <string_view>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Whether runPolicy.managedBy leaves the job to this operator.
bool IsOurs(const TrainingJob& job);

// The priority class that counts for the whole gang: of scheduling.priorityClassName, else the
// first that a role's template names; empty: none.
std::string PriorityClassOf(const TrainingJobSpec& spec);

// The one that the role's template names; empty: none.
std::string PriorityClassOfTemplate(const RoleSpec& role);

// The queue that the job belongs to, whether there is one of that name or not.
std::string QueueOf(const TrainingJobSpec& spec);

// The LocalQueue of Kueue that the job's label names; empty: it asks for nothing of Kueue.
std::string KueueQueueOf(const Metadata& job);

// Whether the job asks for a share of Kueue, and its status says of none.
bool AwaitsKueue(const TrainingJob& job);

// Both of the gang that has its places by `status`, as they were when it got them: an edit counts
// for the next gang. Of one without places, or from before this was kept: as `spec` says.
std::string PriorityClassOf(const TrainingJobSpec& spec, const TrainingJobStatus& status);
std::string QueueOf(const TrainingJobSpec& spec, const TrainingJobStatus& status);

// Whether the job waits for pods that may never go: its own that do not end, or those of an earlier
// job that hold names. The room it asks for is not held for it meanwhile.
bool WaitsForPods(const TrainingJobStatus& status);

// Whether the job stands in the queue: it wants to run, has no place, and nothing but room is
// missing. Jobs that came later may not take room from such a job. One that pauses after it could
// not start holds up nobody; one that pauses before it restarts keeps its place.
bool WaitsForRoom(const TrainingJob& job, WallTime now);

}  // namespace lockstep::control
