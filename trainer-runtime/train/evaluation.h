#pragma once

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/strategy/rank_control.h"
#include "trainer-runtime/strategy/replica_set.h"

namespace lockstep::runtime {

// Sums of loss and hits over `samples`, of which every replica of every rank evaluates its slice;
// the same sums on every rank. Every rank calls this. Changes nothing in the engines.
// Errors: those of Engine::Evaluate and Communicator. Thread: the training thread.
Result<StepTotals> EvaluateSplit(ReplicaSet* replicas,
                                 const Dataset& samples,
                                 RankControl* control,
                                 Deadline deadline);

}  // namespace lockstep::runtime
