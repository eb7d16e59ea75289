#pragma once

#include "common/contract/environment/environment.h"
#include "common/contract/status/status_document.h"

namespace lockstep {

// What a worker with this environment says of itself before it has done anything. The process id is
// left to whoever has one.
StatusDocument InitialStatus(const WorkerEnvironment& environment);

}  // namespace lockstep
