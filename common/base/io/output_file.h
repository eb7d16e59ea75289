#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep {

// Writes `content` where a user says: a file is replaced as by WriteFileAtomically, behind symbolic
// links and not instead of them; a device, a pipe or what a shell
// has opened (/dev/stdout) is written to.
// Errors: as WriteFileAtomically; kIo (a pipe that nobody reads).
Status WriteOutput(const std::string& path, std::string_view content);

}  // namespace lockstep
