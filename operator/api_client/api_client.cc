#include "operator/api_client/api_client.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

using kube::CallResult;
using kube::Fault;
using kube::FaultKind;
using kube::Reply;
using kube::Request;

constexpr int kUnauthorized = 401;
constexpr int kTooManyRequests = 429;
constexpr int kServerErrorMin = 500;

// The longest wait for newer credentials. Choice: what an exec plug-in takes to log in again.
constexpr auto kNewerCredentialsMax = std::chrono::seconds(10);

// Answers on their way from the transport's thread to the one that waits. Outlives that one's
// patience, so shared.
struct Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<std::size_t, CallResult>> answers;
};

// One request of a batch.
struct Slot {
  enum class State { kWaiting, kUnderWay, kDone };

  State state = State::kWaiting;
  TimePoint not_before{};  // while waiting
  TimePoint sent_at{};
  uint64_t credentials_version = 0;
  int retry_count = 0;
  bool was_unauthorized = false;
  std::optional<CallResult> result;
};

}  // namespace

// The requests of one CallAll. Runs on the caller's thread; the transport's only fills the inbox.
class ApiClient::Batch {
 public:
  Batch(const ApiClientOptions& options, const std::vector<Request>& requests)
      : options_(options),
        requests_(requests),
        deadline_(Deadline::After(options.clock->Now(), options.total_timeout)),
        slots_(requests.size()),
        inbox_(std::make_shared<Inbox>()) {}

  std::vector<CallResult> Run() {
    StartDue();
    while (!IsDone()) {
      if (deadline_.HasPassed(options_.clock->Now())) {
        GiveUp();
        break;
      }
      for (auto& [index, result] : TakeAnswers(NextDue())) {
        OnAnswer(index, std::move(result));
      }
      StartDue();
    }
    std::vector<CallResult> results;
    results.reserve(slots_.size());
    for (Slot& slot : slots_) {
      results.push_back(*std::move(slot.result));
    }
    return results;
  }

 private:
  bool IsDone() const {
    return std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
      return slot.state == Slot::State::kDone;
    });
  }

  void StartDue() {
    const TimePoint now = options_.clock->Now();
    for (std::size_t i = 0; i < slots_.size() && under_way_count_ < options_.parallel_max; ++i) {
      if (slots_[i].state == Slot::State::kWaiting && slots_[i].not_before <= now) {
        Start(i, now);
      }
    }
  }

  void Start(std::size_t index, TimePoint now) {
    const Request& request = requests_[index];
    Slot& slot = slots_[index];
    const bool may_change =
        options_.leads_until == nullptr || options_.leads_until() > now + options_.write_timeout;
    if (request.is_mutating() && !may_change) {
      Finish(&slot, Fault{FaultKind::kNotLeader, false, "this process does not lead"});
      return;
    }
    CallOptions call;
    call.total_timeout =
        std::min(request.is_mutating() ? options_.write_timeout : options_.read_timeout,
                 deadline_.Remaining(now));
    slot.state = Slot::State::kUnderWay;
    slot.sent_at = now;
    slot.credentials_version = options_.credentials->Current()->version;
    ++under_way_count_;
    options_.transport->StartCall(request, call, [inbox = inbox_, index](CallResult result) {
      const std::lock_guard lock(inbox->mutex);
      inbox->answers.emplace_back(index, std::move(result));
      inbox->changed.notify_one();
    });
  }

  // When something is to be done even if no answer comes.
  TimePoint NextDue() const {
    TimePoint next = deadline_.when();
    if (under_way_count_ >= options_.parallel_max) {
      return next;
    }
    for (const Slot& slot : slots_) {
      if (slot.state == Slot::State::kWaiting) {
        next = std::min(next, slot.not_before);
      }
    }
    return next;
  }

  std::vector<std::pair<std::size_t, CallResult>> TakeAnswers(TimePoint until) {
    std::unique_lock lock(inbox_->mutex);
    inbox_->changed.wait_until(lock, until, [this] { return !inbox_->answers.empty(); });
    return std::exchange(inbox_->answers, {});
  }

  void OnAnswer(std::size_t index, CallResult result) {
    Slot& slot = slots_[index];
    --under_way_count_;
    Observe(index, result);
    if (const auto pause = PauseBeforeRetry(index, result)) {
      slot.state = Slot::State::kWaiting;
      slot.not_before = options_.clock->Now() + *pause;
      ++slot.retry_count;
    } else {
      Finish(&slot, std::move(result));
    }
  }

  // How long to wait before the call is tried again; null: this is its result.
  std::optional<Duration> PauseBeforeRetry(std::size_t index, const CallResult& result) {
    Slot& slot = slots_[index];
    if (slot.retry_count >= options_.retries_max) {
      return std::nullopt;
    }
    if (const auto* fault = std::get_if<Fault>(&result)) {
      const bool is_cut = fault->kind == FaultKind::kReset || fault->kind == FaultKind::kTruncated;
      return is_cut && !requests_[index].is_mutating() ? FitsIn(options_.reset_pause)
                                                       : std::nullopt;
    }
    const Reply& reply = std::get<Reply>(result);
    if (reply.status == kUnauthorized && !slot.was_unauthorized) {
      slot.was_unauthorized = true;
      const Duration patience =
          std::min<Duration>(kNewerCredentialsMax, deadline_.Remaining(options_.clock->Now()));
      return options_.credentials->AwaitNewer(slot.credentials_version,
                                              Deadline::After(options_.clock->Now(), patience))
                 ? std::optional(Duration::zero())
                 : std::nullopt;
    }
    const bool may_retry = reply.status == kTooManyRequests || reply.status >= kServerErrorMin;
    return may_retry && reply.retry_after ? FitsIn(*reply.retry_after) : std::nullopt;
  }

  std::optional<Duration> FitsIn(Duration pause) const {
    return pause < deadline_.Remaining(options_.clock->Now()) ? std::optional(pause) : std::nullopt;
  }

  void Observe(std::size_t index, const CallResult& result) const {
    if (options_.observer == nullptr) {
      return;
    }
    const Request& request = requests_[index];
    CallRecord record;
    record.verb = request.verb;
    record.method = request.method;
    record.duration = options_.clock->Now() - slots_[index].sent_at;
    record.request_bytes = request.body.size();
    record.is_retry = slots_[index].retry_count > 0;
    if (const auto* reply = std::get_if<Reply>(&result)) {
      record.http_status = reply->status;
      record.reply_bytes = reply->body.size();
    } else {
      record.fault = std::get<Fault>(result).kind;
    }
    options_.observer->OnCall(record);
  }

  static void Finish(Slot* slot, CallResult result) {
    slot->state = Slot::State::kDone;
    slot->result = std::move(result);
  }

  void GiveUp() {
    for (Slot& slot : slots_) {
      if (slot.state != Slot::State::kDone) {
        Finish(&slot,
               Fault{FaultKind::kTimeout,
                     slot.state == Slot::State::kUnderWay,
                     "no answer within the time of the whole batch"});
      }
    }
  }

  const ApiClientOptions& options_;
  const std::vector<Request>& requests_;
  const Deadline deadline_;
  std::vector<Slot> slots_;
  int under_way_count_ = 0;
  const std::shared_ptr<Inbox> inbox_;
};

ApiClient::ApiClient(ApiClientOptions options) : options_(std::move(options)) {
  LOCKSTEP_CHECK(
      options_.transport != nullptr && options_.credentials != nullptr && options_.clock != nullptr,
      "a client needs a transport, credentials and a clock");
}

std::vector<CallResult> ApiClient::CallAll(const std::vector<Request>& requests) {
  return Batch(options_, requests).Run();
}

}  // namespace lockstep::control
