#pragma once

#include <chrono>

#include "common/contract/topology.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// How long a pod whose programs have ended waits for a relaunch, as it is told at its birth.
// Choice: one leader may fail meanwhile; then it ends, as a pod does that waits for
// nobody.
inline constexpr std::chrono::seconds kHoldTime{60};

// How long all pods may take to end their programs and to start them anew, then the gang gets new
// pods. Choice: programs have 2 s to end, and starting one takes less.
inline constexpr std::chrono::seconds kRelaunchPatience{30};

// Between two messages to a pod that has not done what it was told. Choice: a message is lost now
// and then, and costs a write of the status.
inline constexpr std::chrono::seconds kTellAgainAfter{2};

// Whoever has told nothing for so long was not there. Choice: two messages that were due.
inline constexpr std::chrono::seconds kAbsentAfter = 3 * kTellAgainAfter;

// Whether a gang of this job may start anew within its pods: it asks for that, and can.
bool MayRelaunch(const TrainingJobSpec& spec);

// Whether the pods of the role wait for a relaunch when their programs have ended.
bool HoldsItsEnd(const TrainingJobSpec& spec, Role role);

}  // namespace lockstep::control
