#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace lockstep::runtime {

// The file that `name` means: itself when it holds a slash, else the first match in the
// colon-separated `search_path`. Errors: kNotFound; kInvalidArgument when what was found cannot be
// executed (a folder, or no permission).
Result<std::string> FindProgram(const std::string& name, std::string_view search_path);

struct ChildOptions {
  std::string program;               // a path
  std::vector<std::string> command;  // what the program sees as its arguments, its name first
  std::map<std::string, std::string> environment;
};

// A running program: leader of a process group of its own, input from /dev/null, and the reading
// ends of its outputs, non-blocking.
struct ChildProcess {
  pid_t pid = 0;
  UniqueFd output;
  UniqueFd error;
};

// Starts a program with all signals at their defaults. The kernel kills it when the calling thread
// ends. Errors: kNotFound (the program or its interpreter is missing), kInvalidArgument (not
// executable on this machine), kResourceExhausted (no process or descriptor left), kIo.
Result<ChildProcess> SpawnChild(const ChildOptions& options);

}  // namespace lockstep::runtime
