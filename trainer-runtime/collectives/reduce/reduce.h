#pragma once

#include <cstddef>
#include <span>

#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// Combines `sources` element by element in the order given, ((s0 + s1) + s2) + ..., into `out`.
// Shapes: each source and out [count] of `type`, aligned for it. `out` may be one of the sources,
// but may not overlap one in any other way. Preconditions (checked): at least one source.
// Integer sums wrap around. Min and max are NaN where any source is (as in NumPy and torch; NCCL's
// fminf would drop it), else they keep the earlier value unless the later one compares smaller
// (greater), so that signed zeros have a fixed result too. Thread: any.
void ReduceInOrder(
    DataType type, ReduceOp op, std::span<const void* const> sources, std::size_t count, void* out);

}  // namespace lockstep::runtime
