#include "operator/cli/terminal/display_columns.h"

#include <algorithm>
#include <array>

namespace lockstep::control {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

constexpr std::array<Range, 7> kNoColumn = {{{0x0300, 0x036F},  // combining marks
                                             {0x1AB0, 0x1AFF},
                                             {0x1DC0, 0x1DFF},
                                             {0x200B, 0x200F},  // joiners and direction marks
                                             {0x20D0, 0x20FF},
                                             {0xFE00, 0xFE0F},  // variation selectors
                                             {0xFE20, 0xFE2F}}};
constexpr std::array<Range, 9> kTwoColumns = {{{0x1100, 0x115F},  // Hangul
                                               {0x2E80, 0x303E},  // CJK
                                               {0x3041, 0xA4CF},
                                               {0xAC00, 0xD7A3},
                                               {0xF900, 0xFAFF},
                                               {0xFE30, 0xFE6F},
                                               {0xFF00, 0xFF60},    // full width forms
                                               {0x1F300, 0x1FAFF},  // pictures
                                               {0x20000, 0x3FFFD}}};

template <std::size_t size>
bool IsIn(const std::array<Range, size>& ranges, char32_t letter) {
  return std::any_of(ranges.begin(), ranges.end(), [letter](const Range& range) {
    return letter >= range.first && letter <= range.last;
  });
}

// Takes the first code point off `text`; a byte that begins none stands for itself.
char32_t TakeLetter(std::string_view* text) {
  const auto byte_at = [text](std::size_t at) { return static_cast<unsigned char>((*text)[at]); };
  const unsigned char lead = byte_at(0);
  const std::size_t size = lead >= 0xF0 && lead < 0xF8   ? 4
                           : lead >= 0xE0 && lead < 0xF0 ? 3
                           : lead >= 0xC0 && lead < 0xE0 ? 2
                                                         : 1;
  char32_t letter = size == 1 ? lead : lead & (0x7FU >> size);
  for (std::size_t at = 1; at < size; ++at) {
    if (at >= text->size() || (byte_at(at) & 0xC0U) != 0x80U) {
      text->remove_prefix(1);
      return lead;
    }
    letter = (letter << 6U) | (byte_at(at) & 0x3FU);
  }
  text->remove_prefix(size);
  return letter;
}

}  // namespace

std::size_t DisplayColumns(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const char32_t letter = TakeLetter(&text);
    if (!IsIn(kNoColumn, letter)) {
      columns += IsIn(kTwoColumns, letter) ? 2 : 1;
    }
  }
  return columns;
}

}  // namespace lockstep::control
