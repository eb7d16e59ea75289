#include "common/base/printable.h"

#include <cstdio>

namespace lockstep {

std::string Printable(std::string_view text) {
  std::string printable;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte < 0x20 && letter != '\t') || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      printable += escaped;
    } else {
      printable += letter;
    }
  }
  return printable;
}

}  // namespace lockstep
