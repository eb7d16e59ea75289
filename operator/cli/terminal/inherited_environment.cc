#include "operator/cli/terminal/inherited_environment.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "common/process/find_program.h"

namespace lockstep::control {
namespace {

// What a pod inherits from the caller of `lockstep`, below its own environment. Sanitizer options
// are here so that a sanitized build can be run as a whole; the trainer's engine, so that another
// one can be tried.
constexpr std::string_view kInherited[] = {"PATH",
                                           "HOME",
                                           "USER",
                                           "LOGNAME",
                                           "LANG",
                                           "LC_ALL",
                                           "TZ",
                                           "TMPDIR",
                                           "LD_LIBRARY_PATH",
                                           "OMP_NUM_THREADS",
                                           "LOCKSTEP_ENGINE",
                                           "ASAN_OPTIONS",
                                           "LSAN_OPTIONS",
                                           "TSAN_OPTIONS",
                                           "UBSAN_OPTIONS"};

}  // namespace

std::map<std::string, std::string> InheritedEnvironment(int core_count, int process_count) {
  std::map<std::string, std::string> environment{{"PATH", std::string(kSearchPathDefault)}};
  for (const std::string_view name : kInherited) {
    if (const char* value = std::getenv(std::string(name).c_str())) {
      environment[std::string(name)] = value;
    }
  }
  // Processes share the cores: each computing with all is slower than each with its part.
  environment.try_emplace("OMP_NUM_THREADS",
                          std::to_string(std::max(1, core_count / std::max(1, process_count))));
  return environment;
}

}  // namespace lockstep::control
