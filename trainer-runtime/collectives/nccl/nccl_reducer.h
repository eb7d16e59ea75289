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
#include "trainer-runtime/collectives/communicator/call.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/nccl/nccl_agreement.h"
#include "trainer-runtime/collectives/nccl/nccl_blame.h"
#include "trainer-runtime/collectives/nccl/nccl_communicator.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"

namespace lockstep::runtime {

// What the ranks of one epoch join NCCL with.
struct NcclReducerOptions {
  std::shared_ptr<NcclGround> ground;  // shared: see NcclCommunicator
  // Of the same ranks. Carries NCCL's identity, and says who is lost: NCCL itself does not notice
  // that a process on its own host has died. Must outlive the reducer.
  Communicator* control = nullptr;
  Epoch epoch;
  // Of all buckets of a step together that are in the host's memory: those of several devices never
  // are, and go by the first one.
  std::size_t element_count = 0;
  // Elements of each bucket of a step: sums of these sizes are tried before joining has succeeded.
  std::vector<std::size_t> bucket_counts = {};
  std::function<bool()> is_stopped;  // ends joining early; empty: nothing does
  // Where joining fails the others only hear that this meeting is over: they can train without.
  bool can_do_without = false;
  Duration loss_patience = kLossPatience;  // see WithBlame
};

// Joins the ranks of `control` for sums by NCCL, after AgreeOnNccl found nothing in the way:
// collective. This rank has as many of NCCL's ranks as the ground has devices.
// Errors: as GradientReducer, and kAborted (stopped), kInvalidArgument (NCCL refuses how it is
// used), kInternal (NCCL or the device failed here: the others get kAborted, and this process is
// best replaced), kIo (likewise, of a call to the system while all ranks live: the sentence says
// what to look at). Thread: the calling thread.
Result<std::unique_ptr<GradientReducer>> JoinAgreedNccl(const NcclReducerOptions& options,
                                                        Deadline deadline);

// Agrees and joins, for a job that insists. Errors: as JoinAgreedNccl, and kInvalidArgument (two
// ranks on one GPU), kMismatch (releases of NCCL, or numbers of GPUs, differ).
Result<std::unique_ptr<GradientReducer>> JoinNccl(const NcclReducerOptions& options,
                                                  Deadline deadline);

}  // namespace lockstep::runtime
