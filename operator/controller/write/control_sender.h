#pragma once

#include <string>

#include "common/contract/status/control_message.h"

namespace lockstep::control {

// Carries control messages to pods. Two implementations: HTTP, and the simulated network.
class ControlSender {
 public:
  virtual ~ControlSender() = default;

  // Sends the message, signed with the job's key, to the pod at `address`. Best effort: neither
  // waits nor tells whether it arrived; the receiver learns the same from its connections.
  virtual void Send(const std::string& address,
                    const std::string& job_key,
                    const ControlMessage& message) = 0;
};

}  // namespace lockstep::control
