#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::control {

// How long a gang that could not start is left alone: 5 s after the first time, doubling, at most
// 5 min. Choices: a quota or a device plugin that comes back is met soon, and a cause that stays
// costs a pass now and then.
inline constexpr std::chrono::seconds kRollbackDelayMin{5};
inline constexpr std::chrono::seconds kRollbackDelayMax{300};

// `count` is how often in a row it could not start, from 1.
std::chrono::seconds RollbackDelay(int64_t count);

}  // namespace lockstep::control
