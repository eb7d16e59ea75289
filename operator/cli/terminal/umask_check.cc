#include "operator/cli/terminal/umask_check.h"

#include <array>
#include <cstdio>

#include <sys/stat.h>

namespace lockstep::control {

mode_t CurrentUmask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

std::string WhyUmaskIsRefused(mode_t mask) {
  if ((mask & S_IRWXU) == 0) {
    return "";
  }
  std::array<char, 8> octal{};
  std::snprintf(octal.data(), octal.size(), "%04o", static_cast<unsigned>(mask & 07777));
  return "umask " + std::string(octal.data()) +
         " found, which denies the owner access to files of the run; expected a umask that "
         "keeps that access, such as 0022";
}

}  // namespace lockstep::control
