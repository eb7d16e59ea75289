#pragma once

#include <memory>

#include "trainer-runtime/collectives/communicator.h"

namespace lockstep::runtime {

// The backend for ranks on several hosts: everything travels over the links, which become
// non-blocking. Errors: kIo and kin.
Result<std::unique_ptr<Communicator>> MakeTcpCommunicator(CommunicatorOptions options);

}  // namespace lockstep::runtime
