#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/base/check.h"

namespace lockstep::fuzz {
namespace {

// What a decoder of JSON, numbers and addresses may trip over.
constexpr std::array<std::string_view, 28> kWords = {"{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     ",",
                                                     ":",
                                                     "\"",
                                                     "\\",
                                                     "null",
                                                     "true",
                                                     "-1",
                                                     "0",
                                                     "1e999",
                                                     "-0.0",
                                                     "NaN",
                                                     "\\u0000",
                                                     "2222",
                                                     "65536",
                                                     "4294967296",
                                                     "9223372036854775808",
                                                     "18446744073709551616",
                                                     "-9223372036854775809",
                                                     "\xff",
                                                     "\xc3(",
                                                     "{}",
                                                     "[]",
                                                     "\\ud800",
                                                     "="};

std::size_t Position(std::size_t bound, Prng* prng) {
  return static_cast<std::size_t>(prng->Below(bound));
}

// A start and a length of at most 16 within `text`.
std::pair<std::size_t, std::size_t> Piece(const std::string& text, Prng* prng) {
  constexpr std::size_t kPieceMax = 16;
  const std::size_t start = Position(text.size() + 1, prng);
  return {start, std::min(Position(kPieceMax, prng) + 1, text.size() - start)};
}

void Damage(const std::vector<std::string>& seeds, std::string* text, Prng* prng) {
  constexpr uint64_t kKinds = 7;
  const uint64_t kind = prng->Below(kKinds);
  const auto [start, length] = Piece(*text, prng);
  switch (kind) {
    case 0:
      if (start < text->size()) {
        (*text)[start] = static_cast<char>((*text)[start] ^ (1 << Position(8, prng)));
      }
      break;
    case 1:
      text->erase(start, length);
      break;
    case 2:
      text->insert(start, text->substr(start, length));
      break;
    case 3:
      text->insert(start, kWords[Position(kWords.size(), prng)]);
      break;
    case 4:
      text->replace(start, length, kWords[Position(kWords.size(), prng)]);
      break;
    case 5:
      text->insert(start, 1, static_cast<char>(prng->Below(256)));
      break;
    default: {
      const std::string& other = seeds[Position(seeds.size(), prng)];
      const auto [other_start, other_length] = Piece(other, prng);
      text->replace(start, length, other.substr(other_start, other_length));
      break;
    }
  }
}

}  // namespace

std::string Mutate(const std::vector<std::string>& seeds, Prng* prng) {
  constexpr std::size_t kDamagesMax = 8;
  LOCKSTEP_CHECK(!seeds.empty(), "nothing to mutate");
  std::string text = seeds[Position(seeds.size(), prng)];
  const std::size_t damages = Position(kDamagesMax, prng) + 1;
  for (std::size_t i = 0; i < damages; ++i) {
    Damage(seeds, &text, prng);
  }
  return text;
}

}  // namespace lockstep::fuzz
