#include "operator/kubeclient/api_client/call_dispatcher.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

using kube::CallResult;
using kube::Fault;
using kube::FaultKind;
using kube::Reply;
using kube::Request;
using kube::Verb;

constexpr int kTooManyRequests = 429;
constexpr int kServerErrorMin = 500;

// The longest wait for newer credentials. Choice: what an exec plug-in takes to log in again.
constexpr Duration kNewerCredentialsMax = std::chrono::seconds(10);
constexpr Duration kCredentialsPause = std::chrono::milliseconds(20);  // between two looks; choice

// The server gives a write up before we do, so that the outcome is known to both: by a quarter of
// its time, and this much at most.
constexpr Duration kServerMarginMax = std::chrono::seconds(5);

// Calls that a lane may send before the next one's turn. Choice: a small gang's pods go out side by
// side, so that it runs as soon as it can, and nobody waits long for a part of a large one.
constexpr int kCallsOfTurnMax = 8;

// The server's own limit, as its parameter "timeout".
std::string WithTimeout(const std::string& target, Duration limit) {
  const Duration margin = std::min(kServerMarginMax, limit / 4);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit - margin).count();
  return target + (target.find('?') == std::string::npos ? "?" : "&") +
         "timeout=" + std::to_string(std::max<int64_t>(seconds, 1)) + "s";
}

}  // namespace

CallDispatcher::CallDispatcher(CallDispatcherOptions options) : options_(std::move(options)) {
  LOCKSTEP_CHECK(
      options_.transport != nullptr && options_.credentials != nullptr && options_.clock != nullptr,
      "calls need a transport, credentials and a clock");
}

void CallDispatcher::Start(const std::string& lane, std::vector<Request> requests, Done done) {
  options_.transport->RunAfter(Duration::zero(),
                               [self = shared_from_this(),
                                lane,
                                requests = std::move(requests),
                                done = std::move(done)]() mutable {
                                 self->Enqueue(lane, std::move(requests), std::move(done));
                               });
}

void CallDispatcher::Abandon() {
  RunAfter(Duration::zero(), [this] {
    for (const auto& group : groups_) {
      group->is_abandoned = true;
    }
    groups_.clear();
    waiting_.clear();
    turns_.clear();
    calls_of_turn_ = 0;
  });
}

void CallDispatcher::Enqueue(const std::string& lane, std::vector<Request> requests, Done done) {
  const auto group = std::make_shared<Group>();
  group->done = std::move(done);
  group->deadline = Deadline::After(options_.clock->Now(), options_.total_timeout);
  group->results.resize(requests.size(), Fault{});
  group->unanswered = requests.size();
  if (requests.empty()) {
    group->done({});
    return;
  }
  groups_.insert(group);
  auto [calls, is_new] = waiting_.try_emplace(lane);
  if (is_new) {
    turns_.push_back(lane);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto call = std::make_shared<Call>();
    call->group = group;
    call->index = i;
    call->lane = lane;
    call->request = std::move(requests[i]);
    calls->second.push_back(std::move(call));
  }
  Dispatch();
}

void CallDispatcher::Dispatch() {
  const TimePoint now = options_.clock->Now();
  ReleaseSlowPlaces(now);
  while (placed_count_ < options_.parallel_max &&
         open_count_ < OpenCallsMax(options_.parallel_max)) {
    const CallPtr call = TakeNext();
    if (call == nullptr) {
      return;
    }
    if (call->group->deadline.HasPassed(now)) {
      Finish(*call,
             Fault{FaultKind::kTimeout,
                   false,
                   "the call was not sent in time, because too many calls are open"});
      continue;
    }
    Send(call, now);
  }
  if (!waiting_.empty()) {
    WatchForSlowCalls(now);
  }
}

void CallDispatcher::ReleaseSlowPlaces(TimePoint now) {
  while (!placed_.empty()) {
    const auto& [oldest, sent_at] = placed_.front();
    if (oldest->holds_place && oldest->sent_at == sent_at) {  // else answered, or sent again
      if (sent_at + options_.slow_after > now) {
        return;
      }
      --placed_count_;
      oldest->holds_place = false;
    }
    placed_.pop_front();
  }
}

void CallDispatcher::WatchForSlowCalls(TimePoint now) {
  if (is_watching_ || placed_.empty()) {
    return;
  }
  is_watching_ = true;
  const TimePoint next = placed_.front().second + options_.slow_after;
  RunAfter(std::max(next - now, Duration::zero()), [this] {
    is_watching_ = false;
    Dispatch();
  });
}

// The next call of the lane whose turn it is, or else of the next that may have one more; null:
// none.
CallDispatcher::CallPtr CallDispatcher::TakeNext() {
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    if (IsFull(turns_.front())) {
      PassTurn();
      continue;
    }
    const auto calls = waiting_.find(turns_.front());
    CallPtr call = std::move(calls->second.front());
    calls->second.pop_front();
    if (calls->second.empty()) {
      waiting_.erase(calls);
      turns_.pop_front();
      calls_of_turn_ = 0;
    } else if (++calls_of_turn_ == kCallsOfTurnMax) {
      PassTurn();
    }
    return call;
  }
  return nullptr;
}

// From the first lane to the second.
void CallDispatcher::PassTurn() {
  turns_.push_back(std::move(turns_.front()));
  turns_.pop_front();
  calls_of_turn_ = 0;
}

// One lane never has all that may be open, and the last quarter is for those that have none.
bool CallDispatcher::IsFull(const std::string& lane) const {
  const auto open = open_by_lane_.find(lane);
  return open != open_by_lane_.end() &&
         (open->second >= options_.parallel_max ||
          open_count_ >= OpenCallsMax(options_.parallel_max) * 3 / 4);
}

// How long the call may take; null: it changes something, and we do not lead long enough.
std::optional<Duration> CallDispatcher::TimeFor(const Request& request, TimePoint now) const {
  if (!request.is_mutating()) {
    return options_.read_timeout;
  }
  if (options_.leads_until == nullptr) {
    return options_.write_timeout_max;
  }
  const TimePoint until = options_.leads_until();
  if (until <= now + options_.write_timeout) {
    return std::nullopt;
  }
  return request.may_outlast_lease ? options_.write_timeout_max
                                   : std::min(options_.write_timeout_max, until - now);
}

void CallDispatcher::Send(const CallPtr& call, TimePoint now) {
  const std::optional<Duration> limit = TimeFor(call->request, now);
  if (!limit) {
    Finish(*call, Fault{FaultKind::kNotLeader, false, "this process does not lead"});
    return;
  }
  Request request = call->request;
  CallOptions options;
  options.total_timeout = *limit;
  if (request.is_mutating()) {
    request.target = WithTimeout(request.target, *limit);
  } else {
    options.total_timeout = std::min(*limit, call->group->deadline.Remaining(now));
  }
  options.first_byte_timeout = options.total_timeout;
  call->sent_at = now;
  call->credentials_version = options_.credentials->Current()->version;
  call->holds_place = true;
  placed_.emplace_back(call, now);
  ++placed_count_;
  ++open_count_;
  ++open_by_lane_[call->lane];
  options_.transport->StartCall(
      std::move(request), options, [self = shared_from_this(), call](CallResult result) {
        self->OnAnswer(call, std::move(result));
      });
}

void CallDispatcher::OnAnswer(const CallPtr& call, CallResult result) {
  placed_count_ -= call->holds_place ? 1 : 0;
  call->holds_place = false;
  --open_count_;
  if (--open_by_lane_[call->lane] == 0) {
    open_by_lane_.erase(call->lane);
  }
  Observe(*call, result);
  call->may_have_happened = call->may_have_happened || kube::MayHaveHappened(result);
  const auto* const reply = std::get_if<Reply>(&result);
  if (call->group->is_abandoned) {
    // Nobody waits for it.
  } else if (reply != nullptr && reply->status == kube::kHttpUnauthorized &&
             !call->was_unauthorized) {
    call->was_unauthorized = true;
    AwaitCredentials(
        call, Deadline::After(options_.clock->Now(), kNewerCredentialsMax), std::move(result));
  } else if (const auto pause = PauseBeforeRetry(call, result)) {
    RetryAfter(call, *pause);
  } else {
    Finish(*call, std::move(result));
  }
  Dispatch();
}

// How long to wait before the call is tried again; null: this is its result.
std::optional<Duration> CallDispatcher::PauseBeforeRetry(const CallPtr& call,
                                                         const CallResult& result) {
  if (call->retry_count >= options_.retries_max) {
    return std::nullopt;
  }
  if (const auto* fault = std::get_if<Fault>(&result)) {
    const bool is_cut = fault->kind == FaultKind::kReset || fault->kind == FaultKind::kTruncated;
    return is_cut && !call->request.is_mutating() ? FitsIn(*call, options_.reset_pause)
                                                  : std::nullopt;
  }
  const Reply& reply = std::get<Reply>(result);
  const bool may_retry = reply.status == kTooManyRequests ||
                         (reply.status >= kServerErrorMin && call->request.verb != Verb::kUpdate);
  return may_retry && reply.retry_after ? FitsIn(*call, *reply.retry_after) : std::nullopt;
}

std::optional<Duration> CallDispatcher::FitsIn(const Call& call, Duration pause) const {
  return pause < call.group->deadline.Remaining(options_.clock->Now()) ? std::optional(pause)
                                                                       : std::nullopt;
}

// The transport has told the credentials of the refusal before we hear of it.
void CallDispatcher::AwaitCredentials(const CallPtr& call, Deadline deadline, CallResult refusal) {
  const CredentialSearch search = options_.credentials->LookForNewer(call->credentials_version);
  if (search == CredentialSearch::kFound) {
    RetryAfter(call, Duration::zero());
  } else if (search == CredentialSearch::kNothing || deadline.HasPassed(options_.clock->Now()) ||
             call->group->deadline.HasPassed(options_.clock->Now())) {
    Finish(*call, std::move(refusal));
  } else {
    RunAfter(kCredentialsPause, [this, call, deadline, refusal = std::move(refusal)] {
      AwaitCredentials(call, deadline, refusal);
    });
  }
}

// It goes before what waits in its lane: it has waited already.
void CallDispatcher::RetryAfter(const CallPtr& call, Duration pause) {
  ++call->retry_count;
  RunAfter(pause, [this, call] {
    if (call->group->is_abandoned) {
      return;
    }
    auto [calls, is_new] = waiting_.try_emplace(call->lane);
    if (is_new) {
      turns_.push_back(call->lane);
    }
    calls->second.push_front(call);
    Dispatch();
  });
}

void CallDispatcher::RunAfter(Duration delay, std::function<void()> task) {
  options_.transport->RunAfter(delay,
                               [self = shared_from_this(), task = std::move(task)] { task(); });
}

void CallDispatcher::Observe(const Call& call, const CallResult& result) const {
  if (options_.observer == nullptr) {
    return;
  }
  CallRecord record;
  record.method = call.request.method;
  record.duration = options_.clock->Now() - call.sent_at;
  record.request_bytes = call.request.body.size();
  record.is_retry = call.retry_count > 0;
  if (const auto* reply = std::get_if<Reply>(&result)) {
    record.http_status = reply->status;
    record.reply_bytes = reply->body.size();
  } else {
    record.fault = std::get<Fault>(result).kind;
  }
  options_.observer->OnCall(record);
}

void CallDispatcher::Finish(const Call& call, CallResult result) {
  const std::shared_ptr<Group> group = call.group;
  if (auto* const fault = std::get_if<Fault>(&result)) {
    fault->request_sent = fault->request_sent || call.may_have_happened;
  }
  group->results[call.index] = std::move(result);
  if (--group->unanswered == 0 && !group->is_abandoned) {
    groups_.erase(group);
    group->done(std::move(group->results));
  }
}

}  // namespace lockstep::control
