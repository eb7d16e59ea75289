#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::gpu {

// How steps are asked for.
enum class Listening {
  kOneByOne,  // with other buckets than the step before: no graph is of both
  kInARow     // so that the engine may do them from a graph
};

struct ListenedSteps {
  double ms_per_step = 0;
  std::size_t late_count = 0;     // buckets that were not there when their event had come
  std::size_t bucket_count = 0;   // of all steps
  std::vector<float> parameters;  // at the end
};

// Takes steps as a rank does whose gradients are summed beside backward; in the place of a sum,
// each bucket is copied to the host behind its event, in a stream of its own. `next_batch`: of each
// step. Errors: those of the engine, and kUnavailable (CUDA refuses).
Result<ListenedSteps> TakeListenedSteps(runtime::Engine& engine,
                                        Listening listening,
                                        std::size_t step_count,
                                        const std::function<runtime::Batch()>& next_batch);

}  // namespace lockstep::gpu
