#pragma once

#include <string>
#include <vector>

namespace lockstep::control {

enum class Shell { kBash, kZsh, kFish };

struct OptionWords {
  std::vector<std::string> names;  // with their dashes: "-o", "--output"
  std::string description;
  bool takes_value = false;
  std::vector<std::string> values;  // all that it may be; empty: anything
};

// A command and what may follow it.
struct CommandWords {
  std::string name;
  std::string description;
  std::vector<OptionWords> options;
  std::vector<std::string> values;  // of its first argument; empty: a file, a folder or a name
  std::vector<CommandWords> commands;
};

// A script that completes `program` and its commands, one level deep, in a shell that reads it.
std::string CompletionScript(Shell shell, const CommandWords& program);

}  // namespace lockstep::control
