#pragma once

#include <cstdint>

#include "trainer-runtime/engine/cuda/update_pass.h"

struct CUstream_st;  // CUDA's: what a cudaStream_t points to

namespace lockstep::runtime {

// One update on a GPU, in two passes over memory where a scale of losses asks for the first:
// FindNonFinite reads the gradients and may set a flag; Update unscales and applies them, or does
// nothing where the flag is set. Both only put work into `stream`, which orders them.
//
// The bits are those of ApplyOptimizer with gradients that are unscaled before: exactly those of
// the gradients' true values where the scale is a power of two.
//
// Errors: 0, or CUDA's code of a launch that was refused (cudaError_t). Thread: any.

// Sets *found to 1 if one of the gradients is not finite; else leaves it. Shapes: gradients [count]
// and found [1], on the device.
int FindNonFinite(const float* gradients, int64_t count, int* found, CUstream_st* stream);

int Update(const SgdFactors& factors, const UpdateBuffers& buffers, CUstream_st* stream);
int Update(const MomentumFactors& factors, const UpdateBuffers& buffers, CUstream_st* stream);
int Update(const AdamFactors& factors, const UpdateBuffers& buffers, CUstream_st* stream);

// What the host and the device tell each other of a guarded update, in the device's memory.
struct GuardedRecords {
  const GuardedStep* step = nullptr;
  StepNumbers* numbers = nullptr;  // loss and length are there when the stream comes to this
};

// Gives the verdict on a step, and updates unless it is refused: two launches, which read scale,
// factors and numbers from the device's memory alone. So they may be captured once and replayed for
// steps whose records are others. `kind` and `buffers` as UpdateGuardedPart takes them.
int UpdateGuarded(const SgdFactors& kind,
                  const GuardedRecords& records,
                  const UpdateBuffers& buffers,
                  CUstream_st* stream);
int UpdateGuarded(const MomentumFactors& kind,
                  const GuardedRecords& records,
                  const UpdateBuffers& buffers,
                  CUstream_st* stream);
int UpdateGuarded(const AdamFactors& kind,
                  const GuardedRecords& records,
                  const UpdateBuffers& buffers,
                  CUstream_st* stream);

}  // namespace lockstep::runtime
