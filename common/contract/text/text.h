#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Whether it is one of '0' to '9', in every locale.
constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// What follows the last slash of `path`.
constexpr std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// Whether `word` is one of those in `list`, which single blanks separate.
bool IsListed(std::string_view word, std::string_view list);

// `text` when it has at most `bytes_max` bytes; else as much of its start as fits in front of
// "...", cut between UTF-8 characters. Never longer than max(bytes_max, 3).
std::string CutText(std::string_view text, std::size_t bytes_max);

}  // namespace lockstep
