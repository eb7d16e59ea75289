#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/collectives/nccl/bounded_wait.h"
#include "trainer-runtime/collectives/nccl/cuda_device.h"
#include "trainer-runtime/collectives/nccl/nccl_communicator.h"

namespace lockstep::runtime {

// A place on each device of a ground, in its order.
using NcclStages = std::vector<std::unique_ptr<CudaStage>>;

// Only the first has room for gradients that come from the host, of so many bytes; all have some
// for SumOnes. Errors: those of CudaStage::Make. Thread: any; it keeps its device.
Result<NcclStages> MakeNcclStages(const NcclGround& ground, std::size_t byte_count);

// Frees what NCCL's kernels use, unless they may still run: then it is lost with them.
void FreeNcclStages(const NcclGround& ground, NcclStages stages);

// Sums a one of each of NCCL's `rank_count` ranks, and waits for the sum on each device:
// collective. NCCL connects its ranks at their first sum (since 2.22), so that is a part of
// joining: what is wrong with the way between them is found here, where they may yet do without.
// Errors: those of NcclCommunicator and of `limits`, kUnavailable (the device), kInternal (a sum is
// not right).
Status SumOnes(int rank_count,
               NcclCommunicator* communicator,
               const NcclStages& stages,
               const WaitLimits& limits);

}  // namespace lockstep::runtime
