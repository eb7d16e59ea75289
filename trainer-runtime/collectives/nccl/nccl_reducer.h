#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/call.h"
#include "trainer-runtime/collectives/communicator.h"
#include "trainer-runtime/collectives/gradient_reducer.h"
#include "trainer-runtime/collectives/nccl/nccl_communicator.h"

namespace lockstep::runtime {

// What the ranks of one epoch join NCCL with.
struct NcclReducerOptions {
  std::shared_ptr<NcclGround> ground;  // shared: see NcclCommunicator
  // Of the same ranks. Carries NCCL's identity, and says who is lost: NCCL itself does not notice
  // that a process on its own host has died. Must outlive the reducer.
  Communicator* control = nullptr;
  Epoch epoch;
  // Of all buckets of a step together that are in the host's memory.
  std::size_t element_count = 0;
  std::function<bool()> is_stopped;  // ends joining early; empty: nothing does
};

// Joins the ranks of `control` for sums by NCCL: collective.
// Errors: as GradientReducer, and kInvalidArgument (two ranks on one GPU), kMismatch (releases of
// NCCL differ), kAborted (stopped), kInternal (NCCL or the device failed here: the others get
// kAborted, and this process is best replaced). Thread: the calling thread.
Result<std::unique_ptr<GradientReducer>> JoinNccl(const NcclReducerOptions& options,
                                                  Deadline deadline);

}  // namespace lockstep::runtime
