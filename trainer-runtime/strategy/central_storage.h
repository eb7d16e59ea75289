#pragma once

#include "trainer-runtime/strategy/synchronous_strategy.h"

namespace lockstep::runtime {

// Variables and the optimizer's state in one place, computation replicated: the first replica of
// the process holds all of the state and takes each update alone; then it gives the parameters to
// the others, which need no memory for the optimizer.
class CentralStorage final : public SynchronousStrategy {
 public:
  using SynchronousStrategy::SynchronousStrategy;

  Status Apply(int64_t update_number) override;

  Status AdoptState() override { return replicas().SpreadTensors(/*with_slots=*/false); }
};

}  // namespace lockstep::runtime
