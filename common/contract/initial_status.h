#pragma once

#include "common/contract/environment.h"
#include "common/contract/status_document.h"

namespace lockstep {

// What a worker with this environment says of itself before it has done anything. The process id is
// left to whoever has one.
StatusDocument InitialStatus(const WorkerEnvironment& environment);

}  // namespace lockstep
