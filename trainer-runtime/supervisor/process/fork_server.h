#pragma once

#include <string_view>

namespace lockstep::runtime {

// The text of fork_server.py, compiled in: the program has no files of its own in an image.
extern const std::string_view kForkServer;

}  // namespace lockstep::runtime
