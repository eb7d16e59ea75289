#pragma once

#include "operator/controller/control_sender.h"
#include "operator/pod_client/http_client.h"

namespace lockstep::control {

// Sends control messages by HTTP to the pods' runtimes. Thread: any.
class ControlPost final : public ControlSender {
 public:
  // `client` outlives it.
  explicit ControlPost(HttpClient* client) : client_(client) {}

  void Send(const std::string& address,
            const std::string& job_key,
            const ControlMessage& message) override;

 private:
  HttpClient* client_;
};

}  // namespace lockstep::control
