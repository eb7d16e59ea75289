#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::control {

// The longest duration that is taken: a year. Choice: beyond it somebody mistook a unit.
inline constexpr Duration kDurationMax = std::chrono::hours(365 * 24);

// "500ms", "90s", "5m", "1h30m", "2d"; a bare number is seconds. Parts may be fractions and follow
// one another in any order.
// Errors: kInvalidArgument, with the text found and the units that are known.
Result<Duration> ParseDuration(std::string_view text);

// As exact as it was given, to the millisecond: "2.5 s", "1 min 30 s", "1 h 1 s", "250 ms".
std::string FormatExactDuration(Duration duration);

}  // namespace lockstep::control
