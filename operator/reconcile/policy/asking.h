#pragma once

#include <chrono>

#include "operator/api/training_job.h"

namespace lockstep::control {

// Whoever was answered, and has no room by then, asks anew. Choice: twice what Kubernetes'
// autoscaler gives a node to join, so that it has given up first.
inline constexpr std::chrono::minutes kRoomTimeout{30};

// Whether a gang of the job asks autoscalers for room that it lacks. They do not know the domains
// of a topology: nodes that they make for a gang that must stand within one may be of no use to it.
inline bool MayAskForCapacity(const TrainingJobSpec& spec) {
  return spec.scheduling.provisioning != Provisioning::kNone &&
         spec.scheduling.topology.required.empty();
}

}  // namespace lockstep::control
