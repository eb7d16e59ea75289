#include "operator/controller/queue_line.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

// Whether its status says another position than this.
bool QueueLine::IsToldOtherwise(const JobId& key, int64_t position) const {
  const StoredJob* const stored = view_->FindJob(key);
  if (stored == nullptr) {
    return false;
  }
  const std::optional<QueuePosition>& queue = stored->job.status.queue;
  return !queue.has_value() || queue->position != position;
}

void QueueLine::Set(const std::vector<LinePosition>& line, WallTime now) {
  std::map<JobId, int64_t> before = std::exchange(positions_, {});
  for (const LinePosition& one : line) {
    const JobId key = JobOfGang(one.gang);
    positions_.emplace(key, one.position);
    before.erase(key);
    if (!IsToldOtherwise(key, one.position)) {
      moved_.Set(key, std::nullopt);
      continue;
    }
    // One that has come just now has its own turn.
    const WallTime told = told_at_.try_emplace(key, now).first->second;
    moved_.Set(key, std::max(now, told + kMoveToldEvery + (one.position - 1) * kMoveToldPerPlace));
  }
  for (const auto& [key, position] : before) {
    told_at_.erase(key);
    moved_.Set(key, std::nullopt);
  }
}

std::optional<int64_t> QueueLine::Tell(const JobId& key, WallTime now) {
  const auto found = positions_.find(key);
  if (found == positions_.end()) {
    return std::nullopt;
  }
  told_at_[key] = now;
  moved_.Set(key, std::nullopt);
  return found->second;
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
