// In the double of NCCL: what only has to be there, and says that it is not done.

#include "trainer-runtime/collectives/nccl/nccl_api.h"

extern "C" {

int ncclCommShrink() {
  return lockstep::runtime::nccl::kInternalError;
}

int ncclCommWindowRegister() {
  return lockstep::runtime::nccl::kInternalError;
}
}
