#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/result.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// A program's memory for `block_count` blocks of `count` elements.
struct CallMemory {
  const char* name = "data";  // as the header calls it
  const void* data = nullptr;
  uint64_t count = 0;
  DataType type = DataType::kUInt8;
  int block_count = 1;
};

// Whether the memory can be used: not null, aligned, of a size that exists, and readable by the
// CPU at both ends, which memory of a GPU is not. Errors: kInvalidArgument.
Status CheckMemory(const CallMemory& memory);

}  // namespace lockstep::runtime
