#pragma once

#include <optional>
#include <string>

#include "operator/convert/launch_command.h"

namespace lockstep::control {

// What an option of a launcher means to us.
enum class Meaning {
  kDropped,           // it is about what Lockstep does itself
  kPerPod,            // how many processes a pod runs
  kCount,             // how many there are in all
  kOnePerPod,         // a pod runs one
  kMapping,           // it may say how many a pod runs
  kWorkingDirectory,  // where the program starts
  kVariable,          // a variable of the program, by name
  kNames              // names of variables that are handed on
};

struct LauncherOption {
  int value_count = 0;  // words behind it
  Meaning meaning = Meaning::kDropped;
};

// The option that is called `name` on the launcher's command line, without its value; null: it has
// none of that name. Precondition: `launcher` is one.
std::optional<LauncherOption> OptionOf(Launcher launcher, std::string name);

}  // namespace lockstep::control
