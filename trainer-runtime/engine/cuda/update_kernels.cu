#include <algorithm>

#include "trainer-runtime/engine/cuda/update_kernels.h"

namespace lockstep::runtime {
namespace {

// Choice: full occupancy on every architecture since Volta, as nothing here needs many registers.
constexpr int kThreadsOfBlock = 256;
// Choice: a thread for each pack of 4 GiB of parameters; what is beyond is taken in turns.
constexpr int64_t kBlocksMax = int64_t{1} << 20;

__device__ int64_t ThisThread() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__device__ int64_t ThreadCount() {
  return int64_t{gridDim.x} * blockDim.x;
}

template <int kWidth, typename Factors>
__global__ void UpdateKernel(Factors factors, UpdateBuffers buffers) {
  UpdatePart<kWidth>(factors, buffers, ThisThread(), ThreadCount());
}

template <int kWidth>
__global__ void FindNonFiniteKernel(const float* gradients, int64_t count, int* found) {
  if (PartHasNonFinite<kWidth>(gradients, count, ThisThread(), ThreadCount())) {
    *found = 1;  // by several threads: all write the same
  }
}

__global__ void JudgeKernel(const GuardedStep* step, StepNumbers* numbers) {
  numbers->verdict = Judge(*step, numbers->loss_sum, numbers->length);
}

template <int kWidth, typename Factors>
__global__ void UpdateGuardedKernel(Factors kind,
                                    const GuardedStep* step,
                                    const StepNumbers* numbers,
                                    UpdateBuffers buffers) {
  UpdateGuardedPart<kWidth>(kind, *step, numbers->verdict, buffers, {ThisThread(), ThreadCount()});
}

// One thread a pack, and at least one, for what fills none.
unsigned BlockCount(int64_t count, int width) {
  const int64_t pack_count = std::max<int64_t>(count / width, 1);
  return static_cast<unsigned>(
      std::min((pack_count + kThreadsOfBlock - 1) / kThreadsOfBlock, kBlocksMax));
}

template <typename Factors>
int Launch(const Factors& factors, const UpdateBuffers& buffers, CUstream_st* stream) {
  const int width = PackWidthOf(buffers);
  const unsigned block_count = BlockCount(buffers.count, width);
  if (width == kPackWidth) {
    UpdateKernel<kPackWidth><<<block_count, kThreadsOfBlock, 0, stream>>>(factors, buffers);
  } else {
    UpdateKernel<1><<<block_count, kThreadsOfBlock, 0, stream>>>(factors, buffers);
  }
  return cudaGetLastError();
}

template <typename Factors>
int LaunchGuarded(const Factors& kind,
                  const GuardedRecords& records,
                  const UpdateBuffers& buffers,
                  CUstream_st* stream) {
  JudgeKernel<<<1, 1, 0, stream>>>(records.step, records.numbers);
  const int width = PackWidthOf(buffers);
  const unsigned block_count = BlockCount(buffers.count, width);
  if (width == kPackWidth) {
    UpdateGuardedKernel<kPackWidth>
        <<<block_count, kThreadsOfBlock, 0, stream>>>(kind, records.step, records.numbers, buffers);
  } else {
    UpdateGuardedKernel<1>
        <<<block_count, kThreadsOfBlock, 0, stream>>>(kind, records.step, records.numbers, buffers);
  }
  return cudaGetLastError();
}

}  // namespace

int FindNonFinite(const float* gradients, int64_t count, int* found, CUstream_st* stream) {
  UpdateBuffers buffers;
  buffers.gradients = gradients;
  const int width = PackWidthOf(buffers);
  const unsigned block_count = BlockCount(count, width);
  if (width == kPackWidth) {
    FindNonFiniteKernel<kPackWidth>
        <<<block_count, kThreadsOfBlock, 0, stream>>>(gradients, count, found);
  } else {
    FindNonFiniteKernel<1><<<block_count, kThreadsOfBlock, 0, stream>>>(gradients, count, found);
  }
  return cudaGetLastError();
}

int Update(const SgdFactors& factors, const UpdateBuffers& buffers, CUstream_st* stream) {
  return Launch(factors, buffers, stream);
}

int Update(const MomentumFactors& factors, const UpdateBuffers& buffers, CUstream_st* stream) {
  return Launch(factors, buffers, stream);
}

int Update(const AdamFactors& factors, const UpdateBuffers& buffers, CUstream_st* stream) {
  return Launch(factors, buffers, stream);
}

int UpdateGuarded(const SgdFactors& kind,
                  const GuardedRecords& records,
                  const UpdateBuffers& buffers,
                  CUstream_st* stream) {
  return LaunchGuarded(kind, records, buffers, stream);
}

int UpdateGuarded(const MomentumFactors& kind,
                  const GuardedRecords& records,
                  const UpdateBuffers& buffers,
                  CUstream_st* stream) {
  return LaunchGuarded(kind, records, buffers, stream);
}

int UpdateGuarded(const AdamFactors& kind,
                  const GuardedRecords& records,
                  const UpdateBuffers& buffers,
                  CUstream_st* stream) {
  return LaunchGuarded(kind, records, buffers, stream);
}

}  // namespace lockstep::runtime
