#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/kubeclient/api_client/call_observer.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/kubeclient/transport/credentials.h"
#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

struct CallDispatcherOptions {
  // All outlive the dispatcher.
  Transport* transport = nullptr;      // required
  Credentials* credentials = nullptr;  // required; the same as the transport's
  const Clock* clock = nullptr;        // required
  CallObserver* observer = nullptr;    // null: nobody

  // Until when this process may act as leader: LeaseDriver::leads_until. Null: for ever.
  // Thread: any.
  std::function<TimePoint()> leads_until;

  // A write is sent only while leads_until is further away than this; it is given up then, so that
  // it is over before another may lead. Choice: a thousand times what a write takes on a healthy
  // server, half the renew deadline.
  Duration write_timeout = std::chrono::seconds(5);

  // The longest of writes that may outlast the lease, or where nobody else may lead. Webhooks may
  // take 30 s each (the limit of their API); the server itself ends a request after 60 s.
  Duration write_timeout_max = std::chrono::seconds(40);

  Duration read_timeout = std::chrono::seconds(30);   // one GET
  Duration total_timeout = std::chrono::seconds(60);  // until when calls may be sent, or sent again
  Duration reset_pause = std::chrono::seconds(1);     // before a GET is tried again; as client-go
  int retries_max = 10;                               // of one call; as client-go

  int parallel_max = 16;  // calls under way that have not become slow

  // A call that takes longer gives its place to another: what waits for a slow webhook holds up
  // nobody. Choice: far more than a healthy server takes.
  Duration slow_after = std::chrono::seconds(1);
};

// Calls under way at most, slow ones included: all, and of one lane.
constexpr int OpenCallsMax(int parallel_max) {
  return 4 * parallel_max;
}

// Sends the calls of many, in lanes that take turns of some calls each, and repeats what may be
// repeated. A call that is put off (429) or slow holds no place that others want.
//
// Sends again only what does no harm when it happens twice: any call answered with 429 or 5xx and
// Retry-After, after that time, but after 5xx none that replaces a version of an object, whose
// conflict with itself would say that nothing was written; a GET whose connection ended before the
// whole reply came, after a pause; and, once, a call answered with 401, as soon as the credentials
// have something newer. A write whose outcome is unknown, of the last time or of an earlier one,
// comes back as its fault, with request_sent. Needs a transport whose tasks without delay run in
// the order of their posting. Source: client-go's rest/with_retry.go, for which replies are tried
// again. Thread: Start and Abandon any; all else, `done` included, the transport's. Lives in a
// shared_ptr, because calls that it began may end after whoever made it.
class CallDispatcher final : public std::enable_shared_from_this<CallDispatcher> {
 public:
  using Done = std::function<void(std::vector<kube::CallResult>)>;

  explicit CallDispatcher(CallDispatcherOptions options);

  CallDispatcher(const CallDispatcher&) = delete;
  CallDispatcher& operator=(const CallDispatcher&) = delete;

  // `done` gets one answer for each, in order, unless all is abandoned before.
  void Start(const std::string& lane, std::vector<kube::Request> requests, Done done);

  void Abandon();

 private:
  // Calls that were begun together.
  struct Group {
    Done done;
    Deadline deadline = Deadline::At(TimePoint{});
    std::vector<kube::CallResult> results;
    std::size_t unanswered = 0;
    bool is_abandoned = false;
  };

  struct Call {
    std::shared_ptr<Group> group;  // shared by its calls
    std::size_t index = 0;         // in the group
    std::string lane;
    kube::Request request;
    TimePoint sent_at{};
    uint64_t credentials_version = 0;
    int retry_count = 0;
    bool was_unauthorized = false;
    bool may_have_happened = false;  // when it was sent before
    bool holds_place = false;
  };

  using CallPtr = std::shared_ptr<Call>;  // shared by the queues and the transport's callback

  void Enqueue(const std::string& lane, std::vector<kube::Request> requests, Done done);
  void Dispatch();
  void ReleaseSlowPlaces(TimePoint now);
  void WatchForSlowCalls(TimePoint now);
  CallPtr TakeNext();
  void PassTurn();
  bool IsFull(const std::string& lane) const;
  void Send(const CallPtr& call, TimePoint now);
  std::optional<Duration> TimeFor(const kube::Request& request, TimePoint now) const;
  void OnAnswer(const CallPtr& call, kube::CallResult result);
  std::optional<Duration> PauseBeforeRetry(const CallPtr& call, const kube::CallResult& result);
  std::optional<Duration> FitsIn(const Call& call, Duration pause) const;
  void AwaitCredentials(const CallPtr& call, Deadline deadline, kube::CallResult refusal);
  void RetryAfter(const CallPtr& call, Duration pause);
  void RunAfter(Duration delay, std::function<void()> task);
  void Observe(const Call& call, const kube::CallResult& result) const;
  void Finish(const Call& call, kube::CallResult result);

  const CallDispatcherOptions options_;
  std::map<std::string, std::deque<CallPtr>> waiting_;  // by lane; no lane is empty
  std::deque<std::string> turns_;                       // the lanes of waiting_, next one first
  int calls_of_turn_ = 0;                               // sent by the first since it is that
  std::deque<std::pair<CallPtr, TimePoint>> placed_;    // by the time of sending; some may be over
  std::map<std::string, int> open_by_lane_;
  std::set<std::shared_ptr<Group>> groups_;  // not all answered; shared with their calls
  int placed_count_ = 0;
  int open_count_ = 0;
  bool is_watching_ = false;  // for slow calls
};

}  // namespace lockstep::control
