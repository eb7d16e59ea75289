#include "operator/view/usage_ledger.h"

#include <utility>

namespace lockstep::control {

const UsageByNode& UsageLedger::Sum() {
  Refresh();
  return sum_;
}

const UsageByNode* UsageLedger::OwnOf(const JobId& job) {
  Refresh();
  const auto found = usage_.find(job);
  return found == usage_.end() ? nullptr : &found->second.own;
}

UsageByNode UsageLedger::ByStrangers() {
  Refresh();
  UsageByNode held;
  for (const auto& [job, usage] : usage_) {
    AddUsage(usage.strangers, &held);
  }
  return held;
}

std::vector<JobId> UsageLedger::JobsOn(const std::string& node) {
  Refresh();
  std::vector<JobId> jobs;
  for (const auto& [job, usage] : usage_) {
    if (usage.own.count(node) > 0) {
      jobs.push_back(job);
    }
  }
  return jobs;
}

void UsageLedger::Refresh() {
  for (const JobId& job : stale_) {
    if (const auto old = usage_.find(job); old != usage_.end()) {
      SubtractUsage(old->second.own, &sum_);
      SubtractUsage(old->second.strangers, &sum_);
      usage_.erase(old);
    }
    JobUsage held = count_(job);
    if (!held.own.empty() || !held.strangers.empty()) {
      AddUsage(held.own, &sum_);
      AddUsage(held.strangers, &sum_);
      usage_[job] = std::move(held);
    }
  }
  stale_.clear();
}

}  // namespace lockstep::control
