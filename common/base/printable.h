#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// `text` with control characters, but for tabs, made visible as \xNN: what others wrote cannot
// steer the terminal, and stays on its line.
std::string Printable(std::string_view text);

}  // namespace lockstep
