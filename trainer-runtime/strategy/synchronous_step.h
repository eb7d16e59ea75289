#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/gradient_reducer.h"
#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/replica_set.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

// The step of every synchronous strategy: the replicas compute, their gradients are summed in the
// first one's memory, and that sum is summed over all ranks, bucket by bucket in the plan's order.
// Errors: as Strategy::Step.
Result<StepOutcome> TakeSynchronousStep(ReplicaSet* replicas,
                                        const ReplicaStep& step,
                                        const std::vector<Bucket>& buckets,
                                        GradientReducer* reducer,
                                        Deadline deadline);

}  // namespace lockstep::runtime
