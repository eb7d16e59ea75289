#include "operator/allocator/usage_ledger.h"

#include <utility>

namespace lockstep::control {

const CopyOnWrite<UsageByNode>& UsageLedger::Sum() {
  Refresh();
  return sum_;
}

const UsageByNode* UsageLedger::OwnOf(const JobId& job) {
  const JobUsage* const held = Of(job);
  return held == nullptr ? nullptr : &held->own;
}

const JobUsage* UsageLedger::Of(const JobId& job) {
  Refresh();
  const auto found = usage_.find(job);
  return found == usage_.end() ? nullptr : &found->second;
}

const UsageByNode& UsageLedger::ByStrangers() {
  Refresh();
  return strangers_;
}

std::set<std::string> UsageLedger::TakeStrangersChanged() {
  Refresh();
  return std::exchange(strangers_changed_, {});
}

void UsageLedger::NoteStrangers(const UsageByNode& usage) {
  for (const auto& [node, use] : usage) {
    strangers_changed_.insert(node);
  }
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
  if (stale_.empty()) {
    return;
  }
  UsageByNode& sum = sum_.Edit();
  for (const JobId& job : stale_) {
    if (const auto old = usage_.find(job); old != usage_.end()) {
      SubtractUsage(old->second.own, &sum);
      SubtractUsage(old->second.strangers, &sum);
      SubtractUsage(old->second.orphans, &sum);
      SubtractUsage(old->second.strangers, &strangers_);
      NoteStrangers(old->second.strangers);
      usage_.erase(old);
    }
    JobUsage held = count_(job);
    if (!held.own.empty() || !held.strangers.empty() || !held.orphans.empty()) {
      AddUsage(held.own, &sum);
      AddUsage(held.orphans, &sum);
      AddUsage(held.strangers, &sum);
      AddUsage(held.strangers, &strangers_);
      NoteStrangers(held.strangers);
      usage_[job] = std::move(held);
    }
  }
  stale_.clear();
}

}  // namespace lockstep::control
