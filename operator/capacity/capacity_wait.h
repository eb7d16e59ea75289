#pragma once

#include <string>

#include "operator/reconcile/decision.h"

namespace lockstep::control {

// Why a job does not look for places yet: somebody whom it asks for room has not granted it.
struct CapacityWait {
  std::string reason;  // one CamelCase word, of the condition Scheduled
  std::string message;
  EventType type = EventType::kNormal;
  bool is_momentary = false;  // the next turn goes on: no limit of time ends this wait
};

}  // namespace lockstep::control
