#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/api/job/job_id.h"

namespace lockstep::control {

// When jobs are to be looked at though nothing has happened: at most one moment each.
class JobAlarms {
 public:
  // In place of what was set before; empty: none.
  void Set(const JobId& job, std::optional<WallTime> when);

  std::optional<WallTime> First() const {
    return by_time_.empty() ? std::nullopt : std::optional(by_time_.begin()->first);
  }

  // Jobs whose moment has come. They have none any more.
  std::vector<JobId> TakeDue(WallTime now);

 private:
  std::map<JobId, WallTime> by_job_;
  std::set<std::pair<WallTime, JobId>> by_time_;
};

}  // namespace lockstep::control
