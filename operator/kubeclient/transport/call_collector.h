#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

// Puts a streamed reply together into the one answer of a call.
class CallCollector final : public StreamSink {
 public:
  struct Hooks {
    std::function<void()> on_unauthorized;  // the reply is a 401
    Transport::Done done;                   // called once, with the answer
  };

  CallCollector(std::size_t body_bytes_max, Hooks hooks);

  void OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) override;
  StreamFlow OnBytes(std::string_view bytes) override;
  void OnEnd(const std::optional<kube::Fault>& fault) override;

 private:
  const std::size_t body_bytes_max_;
  const Hooks hooks_;
  kube::Reply reply_;
  bool is_too_long_ = false;
};

}  // namespace lockstep::control
