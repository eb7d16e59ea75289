#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/time.h"
#include "common/json/json.h"

namespace lockstep::control {

// Fields of a status, in the manner of ObjectReader's own. All are optional.

// A moment such as 2026-11-21T10:22:03Z; what is none is recorded.
std::optional<WallTime> ReadTime(ObjectReader& reader, std::string_view key);

// A number of things: 0 when absent; a negative one is recorded.
int64_t ReadCount(ObjectReader& reader, std::string_view key);

// Leaves out what is null.
void SetTime(Json* object, const char* key, const std::optional<WallTime>& time);

// JSON has no infinities and no NaN, and the schema no null: such a number is left out.
void SetNumber(Json* object, const char* key, const std::optional<double>& number);

}  // namespace lockstep::control
