#include "operator/kubeclient/transport/call_collector.h"

#include <utility>

namespace lockstep::control {
CallCollector::CallCollector(std::size_t body_bytes_max, Hooks hooks)
    : body_bytes_max_(body_bytes_max), hooks_(std::move(hooks)) {}

void CallCollector::OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) {
  reply_.status = http_status;
  reply_.retry_after = retry_after;
  if (http_status == kube::kHttpUnauthorized) {
    hooks_.on_unauthorized();
  }
}

StreamFlow CallCollector::OnBytes(std::string_view bytes) {
  is_too_long_ = reply_.body.size() + bytes.size() > body_bytes_max_;
  if (is_too_long_) {
    return StreamFlow::kStop;
  }
  reply_.body.append(bytes);
  return StreamFlow::kMore;
}

void CallCollector::OnEnd(const std::optional<kube::Fault>& fault) {
  if (is_too_long_) {
    hooks_.done(kube::Fault{kube::FaultKind::kTruncated, true, "the reply is longer than allowed"});
  } else if (fault) {
    hooks_.done(*fault);
  } else {
    hooks_.done(std::move(reply_));
  }
}

}  // namespace lockstep::control
