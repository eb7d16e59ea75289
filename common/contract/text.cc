#include "common/contract/text.h"

namespace lockstep {

std::string CutText(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view kMark = "...";
  if (text.size() <= bytes_max) {
    return std::string(text);
  }
  std::size_t kept = bytes_max > kMark.size() ? bytes_max - kMark.size() : 0;
  // A byte 10xxxxxx continues a character: step back to where that character began.
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xC0U) == 0x80U) {
    --kept;
  }
  return std::string(text.substr(0, kept)) + std::string(kMark);
}

}  // namespace lockstep
