#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep {

void CheckFailed(const char* file, int line, const char* expression, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, expression, detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace lockstep
