#include "common/contract/text/text.h"

namespace lockstep {

bool IsListed(std::string_view word, std::string_view list) {
  const auto is_edge = [&](std::size_t at) { return at >= list.size() || list[at] == ' '; };
  for (std::size_t at = list.find(word); at != std::string_view::npos && !word.empty();
       at = list.find(word, at + 1)) {
    if (is_edge(at - 1) && is_edge(at + word.size())) {  // in front of the first: 0 - 1 is large
      return word.find(' ') == std::string_view::npos;
    }
  }
  return false;
}

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
