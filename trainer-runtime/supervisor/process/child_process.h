#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"

namespace lockstep::runtime {

struct ChildOptions {
  std::string program;               // a path
  std::vector<std::string> command;  // what the program sees as its arguments, its name first
  std::map<std::string, std::string> environment;
  int input_fd = -1;  // its input; borrowed; -1: /dev/null
  int kept_fd = -1;   // inherited under its number; borrowed; -1: none
};

// A running program: leader of a process group of its own, and the reading ends of its outputs,
// non-blocking.
struct ChildProcess {
  pid_t pid = 0;
  UniqueFd output;
  UniqueFd error;
};

struct Pipe {
  UniqueFd reader;  // non-blocking
  UniqueFd writer;
};

// Neither end is inherited by programs. Errors: kResourceExhausted, kIo.
Result<Pipe> MakePipe();

// Starts a program as the leader of a process group, as Spawn does. Errors: as Spawn.
Result<ChildProcess> SpawnChild(const ChildOptions& options);

}  // namespace lockstep::runtime
