#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "common/base/time.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// One exchange with the API server, retries counted one by one.
struct CallRecord {
  std::string_view method;               // "GET", ...; valid during the call of the observer
  int http_status = 0;                   // 0: there was no reply
  std::optional<kube::FaultKind> fault;  // of a call without reply
  Duration duration{};                   // to the last byte; of a stream: to its header
  std::size_t request_bytes = 0;         // bodies only
  std::size_t reply_bytes = 0;
  bool is_retry = false;
};

// Told of every exchange, for metrics (rest_client_*). Called from many threads; must not block.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void OnCall(const CallRecord& record) = 0;
};

}  // namespace lockstep::control
