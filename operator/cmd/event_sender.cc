#include "operator/cmd/event_sender.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace lockstep::control {
namespace {

constexpr Duration kWaitMax = std::chrono::minutes(1);

// Events wait for those that follow. Choice: nobody reads them as fast, and what they tell of is
// still being done: the server is to have its hands free for that.
constexpr Duration kGatherTime = std::chrono::milliseconds(100);

// What follows from one answer is sent at most this often: an event is created, found to be there,
// made a series.
constexpr int kRoundsMax = 3;

}  // namespace

EventSender::EventSender(EventSenderOptions options)
    : options_(std::move(options)),
      recorder_(options_.recorder),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

EventSender::~EventSender() = default;

void EventSender::Send(kube::EventSubject subject, kube::EventText text) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= options_.waiting_max) {
    ++dropped_;
    return;
  }
  waiting_.push_back(
      {std::move(subject), std::move(text), options_.clock->Now(), options_.clock->WallNow()});
  changed_.notify_one();
}

int64_t EventSender::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void EventSender::Run(const std::stop_token& stop) {
  while (true) {
    const bool is_last = stop.stop_requested();
    std::vector<kube::EventRecorder::Outgoing> batch;
    for (Waiting& one : Take(stop)) {
      if (auto outgoing = recorder_.Record(one.subject, one.text, one.at, one.wall_at)) {
        batch.push_back(std::move(*outgoing));
      }
    }
    for (auto& outgoing : recorder_.Flush(options_.clock->Now())) {
      batch.push_back(std::move(outgoing));
    }
    Deliver(std::move(batch));
    if (is_last) {
      return;
    }
  }
}

// Waits until there is something to send, or the thread is to end.
std::vector<EventSender::Waiting> EventSender::Take(const std::stop_token& stop) {
  const TimePoint latest = options_.clock->Now() + kWaitMax;
  const TimePoint until = std::min(recorder_.NextFlush().value_or(latest), latest);
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, stop, until, [this] { return !waiting_.empty(); })) {
    changed_.wait_for(lock, stop, kGatherTime, [] { return false; });
  }
  std::vector<Waiting> taken(std::make_move_iterator(waiting_.begin()),
                             std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  return taken;
}

void EventSender::Deliver(std::vector<kube::EventRecorder::Outgoing> batch) {
  for (int round = 0; round < kRoundsMax && !batch.empty(); ++round) {
    std::vector<kube::Request> requests;
    for (const auto& outgoing : batch) {
      requests.push_back(outgoing.request);
    }
    const std::vector<kube::CallResult> results = options_.api->CallAll(requests);
    std::vector<kube::EventRecorder::Outgoing> next;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (auto more = recorder_.OnResult(batch[i], results[i])) {
        next.push_back(std::move(*more));
      } else if (const auto reply = kube::RequireSuccess(results[i]); !reply.ok()) {
        options_.logger->Debug("event not written", {{"error", reply.error().ToString()}});
      }
    }
    batch = std::move(next);
  }
}

}  // namespace lockstep::control
