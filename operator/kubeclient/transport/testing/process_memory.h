#pragma once

#include <cstddef>

namespace lockstep::control {

// What this process has in memory. Source: /proc/self/statm.
std::size_t ResidentBytes();

}  // namespace lockstep::control
