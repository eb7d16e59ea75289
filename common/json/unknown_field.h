#pragma once

#include <string_view>

#include "common/base/error.h"

namespace lockstep {

// How ObjectReader::Finish begins what it says of a key that nobody asked for.
inline constexpr std::string_view kUnknownFieldWords = "unknown field";

// Whether the problem is such a key: a newer version may know it, while a wrong value stays wrong.
bool IsUnknownField(const Error& problem);

}  // namespace lockstep
