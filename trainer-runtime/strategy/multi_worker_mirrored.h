#pragma once

#include "trainer-runtime/strategy/synchronous_strategy.h"

namespace lockstep::runtime {

// Synchronous data parallelism: every replica of every rank holds all variables, computes the
// gradient of its share of the global batch, and applies the same mean gradient at the same step.
// With one rank this is Mirrored.
class MultiWorkerMirrored final : public SynchronousStrategy {
 public:
  using SynchronousStrategy::SynchronousStrategy;

  Status Apply(int64_t update_number) override;

  Status AdoptState() override { return replicas().SpreadTensors(/*with_slots=*/true); }
};

}  // namespace lockstep::runtime
