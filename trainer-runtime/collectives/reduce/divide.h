#pragma once

#include <cstddef>

#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// Whether elements of `type` can be divided: a mean of integers would not be one.
bool IsFloating(DataType type);

// Divides each element, rounding as its type does. Shapes: data [count] of `type`, aligned for it.
// Precondition (checked): IsFloating(type), divisor > 0. Thread: any.
void Divide(void* data, std::size_t count, DataType type, int divisor);

}  // namespace lockstep::runtime
