#pragma once

#include <cstdint>

namespace lockstep::control::sim {

// Bytes that this thread has taken from the heap so far: work that is the same in every run of a
// seed, however busy the machine is. Whatever copies, regroups or prints takes some.
// Thread: any; each counts its own.
int64_t BytesTaken();

}  // namespace lockstep::control::sim
