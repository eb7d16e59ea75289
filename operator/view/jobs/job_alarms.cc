#include "operator/view/jobs/job_alarms.h"

namespace lockstep::control {

void JobAlarms::Set(const JobId& job, std::optional<WallTime> when) {
  if (const auto old = by_job_.find(job); old != by_job_.end()) {
    by_time_.erase({old->second, job});
    by_job_.erase(old);
  }
  if (when.has_value()) {
    by_job_.emplace(job, *when);
    by_time_.emplace(*when, job);
  }
}

std::vector<JobId> JobAlarms::TakeDue(WallTime now) {
  std::vector<JobId> due;
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    due.push_back(by_time_.begin()->second);
    Set(JobId(due.back()), std::nullopt);
  }
  return due;
}

}  // namespace lockstep::control
