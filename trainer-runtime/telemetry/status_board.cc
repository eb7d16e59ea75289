#include "trainer-runtime/telemetry/status_board.h"

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

}  // namespace lockstep::runtime
