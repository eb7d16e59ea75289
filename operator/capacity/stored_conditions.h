#pragma once

#include <string>
#include <string_view>

#include "common/json/json.h"

namespace lockstep::control {

// Conditions of other people's objects, as they are stored; `conditions` may be null, or anything.

// Whether it has that condition, and it is true.
bool IsTrueIn(const Json& conditions, std::string_view type);

// The text under `field` of that condition, true or not; empty: it was never set.
std::string TextIn(const Json& conditions, std::string_view type, const char* field);

}  // namespace lockstep::control
