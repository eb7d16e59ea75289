#pragma once

#include <vector>

#include "trainer-runtime/collectives/nccl/testing/fake_nccl_comm.h"

namespace lockstep::runtime::nccl {

// What ends of one communicator are in this process: Comm::has_siblings of each. Thread: any.
void RememberEnd(Comm* comm, const UniqueId& id);
void ForgetEnd(const Comm* comm);

// Those of the communicator of `comm`, this one among them.
std::vector<const Comm*> EndsBeside(const Comm* comm);

}  // namespace lockstep::runtime::nccl
