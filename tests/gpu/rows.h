#pragma once

#include <string>

namespace lockstep::gpu {

// What the programs end with, for tests/gpu/run.sh.
inline constexpr int kExitHeld = 0;
inline constexpr int kExitMissed = 1;
inline constexpr int kExitUsage = 64;
inline constexpr int kExitNoGpu = 69;
inline constexpr int kExitRefused = 77;  // what was to be tried is not to be had on this machine

// Writes one row of the table: fields with tabs between. `verdict` is "held", "MISSED", "seen"
// (there is no bar) or "not run".
void PrintRow(const std::string& what,
              const std::string& figure,
              const std::string& bar,
              const std::string& verdict);

// The same with "held" or "MISSED". Returns is_held.
bool PrintBar(const std::string& what,
              const std::string& figure,
              const std::string& bar,
              bool is_held);

// "12.3".
std::string OneDecimal(double value);

}  // namespace lockstep::gpu
