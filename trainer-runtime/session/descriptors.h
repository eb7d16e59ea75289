#pragma once

#include <cstdint>

#include "common/base/result.h"

namespace lockstep::runtime {

// The limit of file descriptors that a process needs which is one of `world_size` ranks, given the
// one that it has (`soft`) and the one up to which it may raise that (`hard`). Errors:
// kInvalidArgument (`hard` is below what the links alone need). Pure.
Result<uint64_t> DescriptorLimitFor(int world_size, uint64_t soft, uint64_t hard);

// Raises this process's limit where so many ranks need that. Errors: those of DescriptorLimitFor,
// kIo.
Status MakeRoomForLinks(int world_size);

}  // namespace lockstep::runtime
