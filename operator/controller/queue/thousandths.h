#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::control {

// The most that a text says, in thousandths: what devices that are counted in bytes come to in
// years.
inline constexpr int64_t kThousandthsMax = 999'999'999'999'999'999;

// "12.345" in thousandths, the most at most; empty: it is no such number.
std::optional<int64_t> ReadThousandths(std::string_view text);

// "12.345", "0.5", "7".
std::string ThousandthsText(int64_t thousandths);

// What is counted over time: cores, and devices, whose names have a domain.
bool IsCountedOverTime(std::string_view resource);

}  // namespace lockstep::control
