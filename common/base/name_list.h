#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

// Names that are told of at once. Choice: a line's worth.
inline constexpr std::size_t kNamesToldMax = 5;

// "a, b, c, d, e and 3 more": the first few of a range of strings, and how many there are beside.
template <typename Names>
std::string NameList(const Names& names) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (++count <= kNamesToldMax) {
      text += (count == 1 ? "" : ", ") + name;
    }
  }
  return count <= kNamesToldMax ? text
                                : text + " and " + std::to_string(count - kNamesToldMax) + " more";
}

}  // namespace lockstep
