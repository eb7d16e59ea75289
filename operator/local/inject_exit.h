#pragma once

#include <sys/types.h>

#include "common/base/result.h"

namespace lockstep::control {

// Makes a running child of this process call exit_group(exit_code) at once, whatever it is doing:
// for experiments with failures. Source: ptrace(2).
// Errors: kInvalidArgument (this processor is not supported), kTimeout (it does not stop, for
// example in an uninterruptible wait), kNotFound (it has ended), kIo (tracing is forbidden).
// Thread: the one that started the child. Blocks for at most a second.
Status InjectExit(pid_t pid, int exit_code);

}  // namespace lockstep::control
