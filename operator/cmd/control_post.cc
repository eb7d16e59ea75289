#include "operator/cmd/control_post.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include "common/contract/topology.h"

namespace lockstep::control {
namespace {

// Choice: what is not delivered by then the receiver has learnt from its connections.
constexpr Duration kControlTimeout = std::chrono::seconds(1);

}  // namespace

void ControlPost::Send(const std::string& address,
                       const std::string& job_key,
                       const ControlMessage& message) {
  HttpRequest request;
  request.method = "POST";
  request.address = address;
  request.port = static_cast<uint16_t>(kStatusPort);
  request.target = "/control";
  request.body = EncodeControlMessage(message);
  request.headers[kControlSignatureHeader] = SignControlBody(job_key, request.body);
  client_->Start(std::move(request), kControlTimeout, [](const Result<HttpResponse>&) {});
}

}  // namespace lockstep::control
