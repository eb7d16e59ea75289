#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/job_id.h"
#include "operator/resources/node_usage.h"
#include "operator/view/job_usage.h"

namespace lockstep::control {

// What is held under each job's name, and by all together. Changes of a job only mark it; it is
// counted anew when somebody asks, once for however many of them.
class UsageLedger {
 public:
  // What is held under a job's name now.
  using Count = std::function<JobUsage(const JobId&)>;

  explicit UsageLedger(Count count) : count_(std::move(count)) {}

  // Something about the job, its pods or its places has changed.
  void NoteChange(const JobId& job) { stale_.insert(job); }

  // By all jobs, strangers under their names included.
  const UsageByNode& Sum();

  // By the job's own pods and places; null: nothing.
  const UsageByNode* OwnOf(const JobId& job);

  // By pods that carry a job's name and are not its own.
  UsageByNode ByStrangers();

  // The jobs whose own pods or places are on the node.
  std::vector<JobId> JobsOn(const std::string& node);

 private:
  void Refresh();

  Count count_;
  std::map<JobId, JobUsage> usage_;  // as included in sum_
  UsageByNode sum_;
  std::set<JobId> stale_;  // whose entry in usage_ has to be counted anew
};

}  // namespace lockstep::control
