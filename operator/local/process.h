#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"

namespace lockstep::control {

// What to start: one program as the leader of a new session, and so of a new process group.
struct SpawnRequest {
  std::vector<std::string> argv;           // argv[0] is looked up in the PATH of `env`
  std::map<std::string, std::string> env;  // the whole environment
  std::string working_dir;                 // absolute
  int output_fd = -1;                      // becomes standard output and standard error; borrowed
  std::optional<uint64_t> lineage_mark;    // as in SpawnOptions
};

// A running child of this process. The caller reaps it through `pidfd`.
struct SpawnedProcess {
  pid_t pid = 0;
  UniqueFd pidfd;
};

// Starts the program as the leader of a session of its own, and as the first choice of the kernel's
// out-of-memory killer. Promise, errors and thread: as FindProgram and Spawn. A program that cannot
// be watched is not left running: kResourceExhausted.
Result<SpawnedProcess> SpawnProcess(const SpawnRequest& request);

// How a child ended: the exit code as a shell reports it, and the signal that ended it (or 0).
struct ProcessExit {
  int exit_code = 0;
  int signal = 0;
};

// Waits for the child behind `pidfd` to end and reaps it. `pidfd` is readable from its end on, and
// until it is reaped its pid belongs to nobody else. Errors: kIo (not a child of this process, or
// reaped).
Result<ProcessExit> Reap(int pidfd);

}  // namespace lockstep::control
