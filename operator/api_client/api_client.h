#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "common/base/time.h"
#include "operator/api_client/call_observer.h"
#include "operator/kube/request.h"
#include "operator/transport/credentials.h"
#include "operator/transport/transport.h"

namespace lockstep::control {

struct ApiClientOptions {
  // All outlive the client.
  Transport* transport = nullptr;      // required
  Credentials* credentials = nullptr;  // required; the same as the transport's
  const Clock* clock = nullptr;        // required
  CallObserver* observer = nullptr;    // null: nobody

  // Until when this process may act as leader: LeaseDriver::leads_until. Null: for ever.
  // Thread: any.
  std::function<TimePoint()> leads_until;

  // One exchange that changes something. Such a one is sent only while leads_until is further away
  // than this, so that it is over before another may lead. Choice: a thousand times what a write
  // takes on a healthy server, half the renew deadline.
  Duration write_timeout = std::chrono::seconds(5);
  Duration read_timeout = std::chrono::seconds(30);   // one GET
  Duration total_timeout = std::chrono::seconds(60);  // CallAll, retries and waiting included
  Duration reset_pause = std::chrono::seconds(1);     // before a GET is tried again; as client-go
  int retries_max = 10;                               // of one call; as client-go
  int parallel_max = 16;                              // calls of one CallAll under way
};

// Calls to the API server by way of a transport.
//
// Sends again only what cannot have happened twice: any call answered with 429 or 5xx and
// Retry-After, after that time; a GET whose connection ended before the whole reply came, after a
// pause; and, once, a call answered with 401, as soon as the credentials have something newer. A
// write whose outcome is unknown comes back as its fault, with request_sent.
// Source: client-go's rest/with_retry.go, for which replies are tried again.
// Thread: any; calls from several threads share nothing but the transport.
class ApiClient final : public kube::ApiCaller {
 public:
  explicit ApiClient(ApiClientOptions options);

  // Waits at most total_timeout; what is unanswered then is kTimeout.
  std::vector<kube::CallResult> CallAll(const std::vector<kube::Request>& requests) override;

 private:
  class Batch;

  ApiClientOptions options_;
};

}  // namespace lockstep::control
