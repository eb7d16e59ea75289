#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/result.h"

namespace lockstep {

// What to start, and how.
struct SpawnOptions {
  std::string program;                             // a path, as FindProgram gives it
  std::vector<std::string> arguments;              // what the program sees, its name first
  std::map<std::string, std::string> environment;  // the whole environment
  std::string working_directory;                   // empty: this process's own
  int input_fd = -1;                        // becomes standard input; borrowed; -1: /dev/null
  int output_fd = -1;                       // becomes standard output; borrowed
  int error_fd = -1;                        // becomes standard error; borrowed
  int kept_fd = -1;                         // inherited under its number; borrowed; -1: none
  bool leads_session = false;               // else only a process group
  std::optional<int> oom_score_adjustment;  // for the kernel's out-of-memory killer; proc(5)
  // What the program and all that descends from it carry, whatever they do with their environment,
  // session and descriptors: the soft limit RLIMIT_LOCKS, which Linux has not enforced since 2.4.
  // Left out where the hard limit is below it. Source: getrlimit(2).
  std::optional<uint64_t> lineage_mark;
};

// Starts the program and returns its pid once it runs: a failed exec is an error here, not an exit
// code. The child is killed by the kernel when the calling thread ends, so the thread that spawns
// must live as long as its children should. It leads a process group of its own, inherits no other
// descriptor than these, and has every signal at its default. The caller reaps
// it. Errors: kNotFound (the program, or the interpreter that it names, does not exist),
// kInvalidArgument (not executable on this machine, or the working directory cannot be entered),
// kResourceExhausted (no process or descriptor left), kIo. Thread: any that outlives the child.
Result<pid_t> Spawn(const SpawnOptions& options);

}  // namespace lockstep
