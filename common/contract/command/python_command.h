#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep {

// A command line of the Python interpreter that is nothing but a script or a module with its
// arguments, so that an interpreter which runs already can take its place.
struct PythonCommand {
  std::string interpreter;         // as written: "python3", "/opt/conda/bin/python3.11"
  std::vector<std::string> words;  // what follows it: [-u] SCRIPT.py ..., or [-u] -m MODULE ...

  friend bool operator==(const PythonCommand&, const PythonCommand&) = default;
};

inline constexpr std::string_view kPythonCommandWords =
    "python3 [-u] SCRIPT.py ... or python3 [-u] -m MODULE ..., without spaces in the names";

// Errors: kInvalidArgument (another command; says which word, and what was expected).
Result<PythonCommand> ParsePythonCommand(const std::vector<std::string>& command);

// Whether it is the name of a Python interpreter, without its folder: "python", "python3.11".
bool IsPythonInterpreter(std::string_view name);

// Whether it names a module as `import` does: "torch", "torch.distributed".
bool IsModuleName(std::string_view text);

}  // namespace lockstep
