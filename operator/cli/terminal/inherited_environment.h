#pragma once

#include <map>
#include <string>

namespace lockstep::control {

// What pods get of the environment of whoever calls `lockstep`, below their own. Where that does
// not say with how many threads a program computes, each of `process_count` processes gets its part
// of `core_count` cores.
std::map<std::string, std::string> InheritedEnvironment(int core_count, int process_count);

}  // namespace lockstep::control
