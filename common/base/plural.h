#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// "1 pod", "3 pods", "0 pods": for words whose plural ends in s.
inline std::string Plural(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace lockstep
