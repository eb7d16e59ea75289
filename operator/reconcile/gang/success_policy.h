#pragma once

#include <optional>
#include <string>

#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// The task whose success is the job's under ChiefOrWorker0: the chief where there is one, else
// worker 0. That is rank 0's pod.
std::optional<TaskId> DecidingTask(const JobTopology& topology);

// Whether the job has succeeded. ps and evaluator never count.
bool HasSucceeded(SuccessPolicy policy, const JobTopology& topology, const GangView& view);

// Who has finished, of a job that HasSucceeded, and who had failed by then all the same: "worker-0
// has finished; worker-2 had failed, which ...".
std::string DescribeSuccess(SuccessPolicy policy,
                            const JobTopology& topology,
                            const GangView& view);

// The rank by whose last words a built-in training has finished, where all others have ended as
// well, or are successors that would wait for it in vain; null while somebody still works. Ranks
// take their last step together, and none leaves before the last checkpoint is written and the
// test is done: what becomes of another rank after that takes nothing away.
const Member* FinishedBefore(const GangView& view);

}  // namespace lockstep::control
