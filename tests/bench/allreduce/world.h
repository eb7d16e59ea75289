#pragma once

#include "trainer-runtime/collectives/communicator/communicator.h"

// The ranks of a measurement: processes of this machine.

namespace lockstep::bench {

// Forks ranks 1 and up, which return from here as rank 0 does, each with its own options. The ranks
// are connected over loopback.
runtime::CommunicatorOptions ForkWorld(int world_size, bool allow_shared_memory);

// For rank 0: waits for the others. Returns the first exit code that is not 0, or 0.
int AwaitOthers(int world_size);

}  // namespace lockstep::bench
