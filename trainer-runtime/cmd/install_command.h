#pragma once

#include <string>

#include "common/base/log.h"

namespace lockstep::runtime {

struct InstallCommandOptions {
  std::string directory;  // must exist
  Logger* logger = nullptr;
};

// `lockstep-runtime install DIR`: puts a copy of this program at DIR/lockstep-runtime, mode 0755.
// An init container runs it in front of a user's own image, into a volume that both mount. Done
// again it replaces the copy, also one that is running; a reader never sees a part of it.
// Returns the exit code to end with: 0, kExitUserError (no such folder, no right to write), or
// kExitRetryable (disk full). Thread: any.
int InstallCommand(const InstallCommandOptions& options);

}  // namespace lockstep::runtime
