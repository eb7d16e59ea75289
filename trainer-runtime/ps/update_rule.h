#pragma once

#include "common/contract/training/training_spec.h"
#include "trainer-runtime/strategy/parameter_server/shard_content.h"

namespace lockstep::runtime {

// How a shard is updated under a job's optimizer: ApplyOptimizer on the shard's own values, so that
// a shard's updates are those that the same gradients would make of the whole model.
UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer);

}  // namespace lockstep::runtime
