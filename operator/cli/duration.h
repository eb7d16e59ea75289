#pragma once

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

}  // namespace lockstep::control
