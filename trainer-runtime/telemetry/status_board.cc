#include "trainer-runtime/telemetry/status_board.h"

#include <algorithm>
#include <utility>

namespace lockstep::runtime {

StatusBoard::StatusBoard(StatusDocument initial) : document_(std::move(initial)) {}

void StatusBoard::Update(const std::function<void(StatusDocument&)>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change(document_);
}

void StatusBoard::SetPhase(Phase phase) {
  const std::lock_guard<std::mutex> lock(mutex_);
  document_.phase = phase;
}

void StatusBoard::Record(TimelineEventKind event, TimePoint now, std::optional<int> rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<TimelineEvent>& timeline = document_.timeline;
  if (timeline.size() >= kStatusTimelineMax) {
    timeline.erase(timeline.begin());
  }
  TimelineEvent entry;
  entry.event = event;
  entry.epoch = document_.epoch;
  entry.step = document_.step;
  entry.rank = rank;
  // The steady clock counts from the same point as CLOCK_MONOTONIC on Linux: it is that clock.
  entry.monotonic_ns = now.time_since_epoch().count();
  timeline.push_back(entry);
}

StatusDocument StatusBoard::Snapshot() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return document_;
}

StatusDocument StatusBoard::Tell() {
  const std::lock_guard<std::mutex> lock(mutex_);
  told_up_to_ = document_.history.empty() ? -1 : document_.history.back().data_epoch;
  told_at_ = SteadyNow();
  was_told_.notify_all();
  StatusDocument told = document_;
  if (told.held.has_value() && told.held->monotonic_ns.has_value()) {
    told.held->seconds_ago = ToSeconds(*told_at_ - TimePoint(Duration(*told.held->monotonic_ns)));
  }
  return told;
}

std::optional<TimePoint> StatusBoard::told_at() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return told_at_;
}

bool StatusBoard::WaitUntilTold(std::size_t untold_max, Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  return was_told_.wait_until(lock, deadline.when(), [&] {
    const auto& history = document_.history;
    const auto untold = std::count_if(history.begin(), history.end(), [&](const auto& result) {
      return result.data_epoch > told_up_to_.value_or(result.data_epoch);
    });
    return static_cast<std::size_t>(untold) <= untold_max;
  });
}

}  // namespace lockstep::runtime
