#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// `text` when it has at most `bytes_max` bytes; else as much of its start as fits in front of
// "...", cut between UTF-8 characters. Never longer than max(bytes_max, 3).
std::string CutText(std::string_view text, std::size_t bytes_max);

}  // namespace lockstep
