#pragma once

#include <string_view>

namespace lockstep {

// The last line of what a program printed, as a terminal shows it, for the reason of its end. Empty
// where that line is one of our own log that reports no problem: it says what the program did last
// and not why it ended. Points into `output`.
std::string_view LastLine(std::string_view output);

}  // namespace lockstep
