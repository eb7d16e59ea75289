#pragma once

#include <cstddef>
#include <memory>
#include <span>
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

// All have room for the largest of those sums on their devices, for TrySums. Errors and thread: as
// above.
Result<NcclStages> MakeTrialStages(const NcclGround& ground, std::span<const std::size_t> counts);

// Frees what NCCL's kernels use, unless they may still run: then it is lost with them.
void FreeNcclStages(const NcclGround& ground, NcclStages stages);

// Sums a one of each of NCCL's `rank_count` ranks, and waits for the sum on each device:
// collective. Errors: those of NcclCommunicator and of `limits`, kUnavailable (the device),
// kInternal (a sum is not right).
Status SumOnes(int rank_count,
               NcclCommunicator* communicator,
               const NcclStages& stages,
               const WaitLimits& limits);

// How many sums a trial has at most, and how large one is. Choice: more sizes than NCCL has ways to
// sum (tree, ring, NVLS and their kin, each with three protocols), and the size from which on the
// widest way has been taken long since.
inline constexpr std::size_t kTrialsMax = 32;
inline constexpr std::size_t kTrialBytesMax = std::size_t{256} << 20U;

// The sums of a trial for a step whose buckets have so many elements, ascending: each size once, at
// most kTrialsMax of them, the least and the largest among these, cut to kTrialBytesMax.
std::vector<std::size_t> TrialCounts(std::vector<std::size_t> bucket_counts);

// Sums so many ones in float32, one sum after the other, and looks at the first and the last number
// of each: collective. NCCL chooses the algorithm by the size of a sum, and connects the ranks for
// it at the first such sum (since 2.22: initAlgoChannels in its enqueue.cc). So these sums are a
// part of joining: what is wrong with the way between ranks is found here, where they may yet do
// without. Errors: as SumOnes.
Status TrySums(int rank_count,
               std::span<const std::size_t> counts,
               NcclCommunicator* communicator,
               const NcclStages& trial,
               const WaitLimits& limits);

}  // namespace lockstep::runtime
