// In the double of NCCL: stops what runs, and leaves the communicator to be aborted.

#include "trainer-runtime/collectives/nccl/testing/fake_nccl_comm.h"

extern "C" int ncclCommRevoke(lockstep::runtime::nccl::Comm* comm, int /*flags*/) {
  comm->Stop();
  comm->state.store(lockstep::runtime::nccl::kSuccess);
  return lockstep::runtime::nccl::kSuccess;
}
