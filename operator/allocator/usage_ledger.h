#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/copy_on_write.h"
#include "common/base/time.h"
#include "operator/api/job/job_id.h"
#include "operator/resources/node_usage.h"

namespace lockstep::control {

// What is held under one job's name.
struct JobUsage {
  UsageByNode own;        // by its pods, and promised to those that are still to come
  UsageByNode going;      // the part of it that comes free by itself (IsGoing)
  UsageByNode strangers;  // by pods that carry its name, are not its own, and stay
  UsageByNode orphans;    // by such pods that go
  // The parts of `going` and `orphans` that are stuck from then on, unless they have gone.
  std::map<WallTime, UsageByNode> stuck_from;
  // The parts of them whose pods nobody has asked to go yet, by the pod's uid.
  std::map<std::string, UsageByNode> unasked;
};

// What is held under each job's name, and by all together. Changes of a job only mark it; it is
// counted anew when somebody asks, once for however many of them.
class UsageLedger {
 public:
  // What is held under a job's name now.
  using Count = std::function<JobUsage(const JobId&)>;

  explicit UsageLedger(Count count) : count_(std::move(count)) {}

  // Something about the job, its pods or its places has changed.
  void NoteChange(const JobId& job) { stale_.insert(job); }

  // By all jobs, strangers and orphans under their names included.
  const CopyOnWrite<UsageByNode>& Sum();

  // By the job's own pods and places; null: nothing.
  const UsageByNode* OwnOf(const JobId& job);

  // All that is held under its name; null: nothing.
  const JobUsage* Of(const JobId& job);

  // By pods that carry a job's name, are not its own, and stay.
  const UsageByNode& ByStrangers();

  // Nodes of which such pods may hold something else than when this was asked last.
  std::set<std::string> TakeStrangersChanged();

  // The jobs whose own pods or places are on the node.
  std::vector<JobId> JobsOn(const std::string& node);

 private:
  void Refresh();
  void NoteStrangers(const UsageByNode& usage);

  Count count_;
  std::map<JobId, JobUsage> usage_;  // as included in sum_
  CopyOnWrite<UsageByNode> sum_;
  UsageByNode strangers_;  // the part of it that such pods hold
  std::set<std::string> strangers_changed_;
  std::set<JobId> stale_;  // whose entry in usage_ has to be counted anew
};

}  // namespace lockstep::control
