#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// How long ranks are given to be found lost before a failure counts as this machine's own. Choice:
// a peer that is silent is given up after 5 s.
inline constexpr Duration kLossPatience = std::chrono::seconds(6);

// `met` with what is known of the other ranks. NCCL may learn first that one is gone, and says of a
// full /dev/shm what it says of a closed connection. `health` learns which rank is lost: it is
// Communicator::CheckHealth.
//
//   met        health says        error
//   kPeerLost  something soon     kPeerLost, and what it says
//   kIo        something          the code that it says, and what it says: a lost rank, mostly
//   kIo        nothing            kIo: all ranks live, so it is this machine's; what it has, and
//                                 what to look at
//   others                        as they are
//
// Waits at most `patience`. Thread: that of `health`.
Error WithBlame(const Error& met, const std::function<Status()>& health, Duration patience);

// What NCCL's calls to the system depend on: room in /dev/shm, memory that may be locked, network
// interfaces; and what to look at. One sentence or two, for the end of an error.
std::string DescribeSystem();

}  // namespace lockstep::runtime
