#pragma once

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/strategy/multi_worker_mirrored.h"

namespace lockstep::runtime {

// Sums of loss and hits over `samples`, of which every rank evaluates its slice; the same sums on
// every rank. Every rank calls this. Changes nothing in `engine`.
// Errors: those of Engine::Evaluate and Communicator. Thread: the training thread.
Result<StepTotals> EvaluateSplit(Engine* engine,
                                 const Dataset& samples,
                                 MultiWorkerMirrored* strategy,
                                 Deadline deadline);

}  // namespace lockstep::runtime
