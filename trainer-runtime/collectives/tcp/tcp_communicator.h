#pragma once

#include <memory>

#include "trainer-runtime/collectives/communicator/communicator_front.h"

namespace lockstep::runtime {

// The backend for ranks on several hosts: everything travels over the links, which become
// non-blocking. Errors: kIo and kin.
Result<std::unique_ptr<CommunicatorFront>> MakeTcpCommunicator(CommunicatorOptions options);

}  // namespace lockstep::runtime
