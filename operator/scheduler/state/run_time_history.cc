#include "operator/scheduler/state/run_time_history.h"

#include <algorithm>
#include <cstdint>

namespace lockstep::control {

void RunTimeHistory::Learn(const std::vector<std::string>& kinds, const EndedRun& run) {
  for (const std::string& kind : kinds) {
    std::set<Run>& runs = by_kind_[kind];
    if (!runs.empty()) {
      by_newest_.erase({std::get<WallTime>(*runs.rbegin()), kind});
    }
    runs.insert({run.ended_at, run.id, run.run_time});
    if (runs.size() > options_.runs_max) {
      runs.erase(runs.begin());
    }
    by_newest_.insert({std::get<WallTime>(*runs.rbegin()), kind});
    if (by_kind_.size() > options_.kinds_max) {
      by_kind_.erase(by_newest_.begin()->second);
      by_newest_.erase(by_newest_.begin());
    }
  }
}

PastRuns RunTimeHistory::Recall(const std::vector<std::string>& kinds) const {
  for (const std::string& kind : kinds) {
    const auto found = by_kind_.find(kind);
    if (found == by_kind_.end() || found->second.size() < options_.count_min) {
      continue;
    }
    auto shortest = std::chrono::milliseconds::max();
    std::chrono::milliseconds longest{0};
    for (const auto& [ended_at, id, run_time] : found->second) {
      shortest = std::min(shortest, run_time);
      longest = std::max(longest, run_time);
    }
    return {static_cast<int64_t>(found->second.size()),
            std::chrono::floor<std::chrono::seconds>(shortest),
            std::max(std::chrono::ceil<std::chrono::seconds>(longest), std::chrono::seconds(1))};
  }
  return {};
}

}  // namespace lockstep::control
