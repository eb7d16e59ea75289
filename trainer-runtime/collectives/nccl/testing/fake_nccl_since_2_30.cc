// In the double of NCCL: what only has to be there, and says that it is not done.

#include "trainer-runtime/collectives/nccl/nccl_api.h"

extern "C" {

int ncclCommGrow() {
  return lockstep::runtime::nccl::kInternalError;
}

int ncclCommSuspend() {
  return lockstep::runtime::nccl::kInternalError;
}
}
