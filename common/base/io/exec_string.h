#pragma once

#include <cstddef>

namespace lockstep {

// The longest text that Linux hands to a program as an argument or as "NAME=value": 32 pages of
// 4 KiB, the zero byte behind it included. Source: execve(2), MAX_ARG_STRLEN.
inline constexpr std::size_t kExecStringBytesMax = 128 * 1024 - 1;

}  // namespace lockstep
