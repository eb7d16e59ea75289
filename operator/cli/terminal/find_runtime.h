#pragma once

#include <map>
#include <string>

#include "common/base/result.h"

namespace lockstep::control {

// The path of lockstep-runtime: where the user says (`given`), beside this program, or in PATH. It
// is asked for its version in `environment`, ten seconds at most: in every pod another program in
// its place would end at once, and a job of commands would count that as its success.
// Errors: kNotFound (nothing there that can be executed), kInvalidArgument (another program; says
// what it answered), and those of Spawn.
Result<std::string> FindRuntime(const std::string& given,
                                const std::map<std::string, std::string>& environment);

}  // namespace lockstep::control
