#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::control {

// How long a gang that could not start is left alone: 5 s after the first time, doubling, at most
// 5 min. Choices: a quota or a device plugin that comes back is met soon, and a cause that stays
// costs a turn now and then.
inline constexpr std::chrono::seconds kRollbackDelayMin{5};
inline constexpr std::chrono::seconds kRollbackDelayMax{300};

// The same where the API server did not create a pod. Choice: nothing tells when a quota is raised
// or a webhook mended, and whoever did it is not to wait for minutes; another try costs some calls.
inline constexpr std::chrono::seconds kRefusalDelayMax{60};

// `count` is how often in a row it could not start, from 1.
std::chrono::seconds RollbackDelay(int64_t count, std::chrono::seconds max = kRollbackDelayMax);

// A gang that ran for so long has made progress: a restart after that is the first of its kind.
inline constexpr std::chrono::seconds kSteadyAfter{60};  // choice: not a crash at the start

// How long a gang pauses before it starts anew: not at all the first time, then 1 s, doubling, at
// most 30 s. Choice: the budget of restarts ends the job before longer pauses would tell.
inline constexpr std::chrono::seconds kRestartDelayMax{30};

// `count` is how often in a row the gang broke before it was steady, from 1.
std::chrono::seconds RestartDelay(int64_t count);

}  // namespace lockstep::control
