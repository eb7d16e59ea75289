#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "operator/convert/launch_command.h"

namespace lockstep::control {

// What an option of a launcher means to us.
enum class Meaning {
  kDropped,           // it is about what Lockstep does itself
  kPerPod,            // how many processes a pod runs
  kCount,             // how many there are in all
  kOnePerPod,         // a pod runs one
  kMapping,           // it may say how many a pod runs
  kMachines,          // on how many machines
  kOneMachine,        // on this one
  kHostfile,          // it is told of the machines by a file
  kMultiGpu,          // it starts several processes in a pod whatever devices that has
  kCpu,               // it starts one, whose variable is in `variable`
  kWorkingDirectory,  // where the program starts
  kVariable,          // a variable of the program, by name
  kNames,             // names of variables that are handed on
  kSetting,           // becomes a variable of the program whose name is in `variable`
  kModule,            // the program is a module of Python
  kNoPython,          // it is none of Python
  kUsesEnvironment,   // it is not handed its local rank as an argument
  kRefused,           // it reaches the program by ways of the launcher that we have not
};

struct LauncherOption {
  int value_count = 0;  // words behind it
  Meaning meaning = Meaning::kDropped;
  std::string_view variable = {};  // of a kSetting and a kCpu
  std::string_view value = {};     // of a kCpu, and of a kSetting without a value of its own
};

// The option that is called `name` on the launcher's command line, without its value; null: it has
// none of that name. Precondition: `launcher` is one.
std::optional<LauncherOption> OptionOf(Launcher launcher, std::string name);

}  // namespace lockstep::control
