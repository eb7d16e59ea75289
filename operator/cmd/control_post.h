#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "operator/controller/write/control_sender.h"
#include "operator/pod_client/http_client.h"

namespace lockstep::control {

struct ControlPostOptions {
  // Messages under way at once, each on a connection of its own; the others wait their turn.
  std::size_t open_max = 64;

  // Messages that wait; what comes when so many do is dropped. Choice: what the losses of several
  // large gangs need, at some hundred bytes each; whoever waits longer has learnt it meanwhile.
  std::size_t waiting_max = 4096;

  // Of one message, and how long it may wait. Choice: what is not delivered by then the receiver
  // has learnt from its connections, or from the kubelet.
  Duration timeout = std::chrono::seconds(1);

  uint16_t port = static_cast<uint16_t>(kStatusPort);
};

// Sends control messages by HTTP to the pods' runtimes, the oldest first. Thread: any.
class ControlPost final : public ControlSender {
 public:
  // `client` and `logger` outlive it. Messages under way may outlive it, and those that wait go
  // with the client.
  ControlPost(HttpClient* client, Logger* logger, ControlPostOptions options = {});

  void Send(const std::string& address,
            const std::string& job_key,
            const ControlMessage& message) override;

  // Messages that found no room to wait, or waited too long, since the start.
  std::size_t dropped_count() const;

 private:
  class Line;  // shared with the calls under way

  Logger* logger_;
  uint16_t port_;
  std::shared_ptr<Line> line_;
};

}  // namespace lockstep::control
