#pragma once

#include <memory>

#include "trainer-runtime/collectives/communicator/communicator_front.h"
#include "trainer-runtime/collectives/shared_memory/lent_memory.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"

namespace lockstep::runtime {

// The backend for ranks on one host. Owns the segment (mapped by all ranks, of the size
// SharedMemoryLayout asks for) and the links, which carry no bytes any more: their end is how the
// death of a peer shows. `lent`: what the ranks have lent each other, if they have.
std::unique_ptr<CommunicatorFront> MakeSharedMemoryCommunicator(CommunicatorOptions options,
                                                                SharedSegment segment,
                                                                LentMemory lent = {});

}  // namespace lockstep::runtime
