#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// What our runtime logs, with the field `reason`, where it cannot leave its termination message:
// of its end, that line is all that is left.
inline constexpr std::string_view kMessageNotWritten = "termination message not written";

// The last line of what a program printed, as a terminal shows it, for the reason of its end. Empty
// where that line is one of our own log that reports no problem: it says what the program did last
// and not why it ended. Where it is kMessageNotWritten, the reason that it carries.
std::string LastLine(std::string_view output);

}  // namespace lockstep
