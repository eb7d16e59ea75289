#include "operator/controller/queue/queue_line.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

// Whether its status says another position than this, or will once the last turn's is written.
bool QueueLine::IsToldOtherwise(const JobId& key, int64_t position) const {
  const StoredJob* const stored = view_->FindJob(key);
  if (stored == nullptr) {
    return false;
  }
  if (const auto told = told_.find(key);
      told != told_.end() && told->second.position.value_or(position) != position) {
    return true;
  }
  const std::optional<QueuePosition>& queue = stored->job.status.queue;
  return !queue.has_value() || queue->position != position;
}

namespace {

// For each of the line how many places of all queues are before it.
std::vector<int64_t> PlacesBefore(const std::vector<LinePosition>& line) {
  std::map<int64_t, int64_t> next;  // by position: those of that position, then who is next there
  for (const LinePosition& one : line) {
    ++next[one.position];
  }
  int64_t sum = 0;
  for (auto& [position, count] : next) {
    sum += std::exchange(count, sum);
  }
  std::vector<int64_t> places;
  for (const LinePosition& one : line) {
    places.push_back(next[one.position]++);
  }
  return places;
}

}  // namespace

void QueueLine::Set(const std::vector<LinePosition>& line, WallTime now) {
  std::map<JobId, int64_t> before = std::exchange(positions_, {});
  const std::vector<int64_t> places_before = PlacesBefore(line);
  for (std::size_t i = 0; i < line.size(); ++i) {
    const LinePosition& one = line[i];
    const JobId key = JobOfGang(one.gang);
    positions_.emplace(key, one.position);
    before.erase(key);
    if (!IsToldOtherwise(key, one.position)) {
      moved_.Set(key, std::nullopt);
      continue;
    }
    // One that has come just now has its own turn.
    WallTime& told = told_.try_emplace(key, Told{now, std::nullopt}).first->second.at;
    told = std::min(told, now);  // the clock may have been set back
    moved_.Set(key, std::max(now, told + kMoveToldEvery + places_before[i] * kMoveToldPerPlace));
  }
  for (const auto& [key, position] : before) {
    told_.erase(key);
    moved_.Set(key, std::nullopt);
  }
}

std::optional<int64_t> QueueLine::PositionOf(const JobId& key) const {
  const auto found = positions_.find(key);
  return found == positions_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> QueueLine::Tell(const JobId& key, WallTime now) {
  const std::optional<int64_t> position = PositionOf(key);
  if (position.has_value()) {
    told_[key] = {now, position};
    moved_.Set(key, std::nullopt);
  }
  return position;
}

// Some have heard meanwhile, as they had a turn for something else.
std::vector<JobId> QueueLine::TakeDue(WallTime now) {
  std::vector<JobId> due = moved_.TakeDue(now);
  std::erase_if(due, [&](const JobId& key) {
    const auto found = positions_.find(key);
    return found == positions_.end() || !IsToldOtherwise(key, found->second);
  });
  return due;
}

}  // namespace lockstep::control
