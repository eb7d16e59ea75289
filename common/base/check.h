#pragma once

#include <string>

namespace lockstep {

// Prints "file:line: check failed: expression: detail" to standard error and aborts.
// A broken invariant ends the process: a restart is cheap, a wrong gang is not.
[[noreturn]] void CheckFailed(const char* file,
                              int line,
                              const char* expression,
                              const std::string& detail);

}  // namespace lockstep

// Aborts when `condition` is false, in release builds too. `detail` is only evaluated then.
#define LOCKSTEP_CHECK(condition, detail)                                \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ::lockstep::CheckFailed(__FILE__, __LINE__, #condition, (detail)); \
    }                                                                    \
  } while (false)
