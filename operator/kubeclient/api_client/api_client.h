#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operator/kubeclient/api_client/call_dispatcher.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

struct ApiClientOptions {
  CallDispatcherOptions calls;

  // Told of the answers to StartCalls. Null: StartCalls is not used. Thread: the transport's; must
  // not block.
  std::function<void(kube::CallsAnswered)> on_answers;
};

// Calls to the API server by way of a transport: begun, with answers that come as messages, or
// waited for.
// Thread: any; calls from several threads share the limits of the dispatcher.
class ApiClient final : public kube::ApiCaller, public kube::CallStarter {
 public:
  explicit ApiClient(ApiClientOptions options);

  // Nothing that is under way answers any more.
  ~ApiClient() override { dispatcher_->Abandon(); }

  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  // Waits until all are answered; none is sent after CallDispatcherOptions::total_timeout.
  std::vector<kube::CallResult> CallAll(const std::vector<kube::Request>& requests) override;

  void StartCalls(kube::CallTicket ticket,
                  const std::string& lane,
                  std::vector<kube::Request> requests) override;

  void AbandonCalls() override { dispatcher_->Abandon(); }

 private:
  ApiClientOptions options_;
  std::shared_ptr<CallDispatcher> dispatcher_;  // shared with the calls under way
};

}  // namespace lockstep::control
