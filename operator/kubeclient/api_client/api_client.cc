#include "operator/kubeclient/api_client/api_client.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace lockstep::control {
namespace {

using kube::CallResult;

// Answers on their way from the transport's thread to the one that waits. Outlives that one's
// patience, so shared.
struct Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::vector<CallResult>> results;
};

// A call that was sent at the last moment still has its own time, and then some: the transport
// answers each. Choice.
constexpr Duration kPatienceMargin = std::chrono::seconds(5);

}  // namespace

ApiClient::ApiClient(ApiClientOptions options)
    : options_(std::move(options)), dispatcher_(std::make_shared<CallDispatcher>(options_.calls)) {}

std::vector<CallResult> ApiClient::CallAll(const std::vector<kube::Request>& requests) {
  const auto inbox = std::make_shared<Inbox>();
  dispatcher_->Start("", requests, [inbox](std::vector<CallResult> results) {
    const std::lock_guard lock(inbox->mutex);
    inbox->results = std::move(results);
    inbox->changed.notify_one();
  });
  const TimePoint until = options_.calls.clock->Now() + options_.calls.total_timeout +
                          options_.calls.write_timeout_max + kPatienceMargin;
  std::unique_lock lock(inbox->mutex);
  inbox->changed.wait_until(lock, until, [&] { return inbox->results.has_value(); });
  if (!inbox->results) {
    const kube::Fault unheard{kube::FaultKind::kTimeout,
                              true,
                              "the API server did not answer in time, after all attempts"};
    return {requests.size(), CallResult(unheard)};
  }
  return *std::move(inbox->results);
}

void ApiClient::StartCalls(kube::CallTicket ticket,
                           const std::string& lane,
                           std::vector<kube::Request> requests) {
  dispatcher_->Start(lane,
                     std::move(requests),
                     [ticket, tell = options_.on_answers](std::vector<CallResult> results) {
                       tell({ticket, std::move(results)});
                     });
}

}  // namespace lockstep::control
