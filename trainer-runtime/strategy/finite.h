#pragma once

#include <span>

namespace lockstep::runtime {

// Whether all values are finite numbers. Costs one pass over them.
bool AllFinite(std::span<const float> values);

}  // namespace lockstep::runtime
