#include "operator/view/pods/pod_doubts.h"

namespace lockstep::control {

void PodDoubts::End(const JobId& job, const std::string& name) {
  const auto found = names_.find(job);
  if (found == names_.end()) {
    return;
  }
  found->second.erase(name);
  if (found->second.empty()) {
    names_.erase(found);
  }
}

std::set<std::string> PodDoubts::Of(const JobId& job) const {
  const auto found = names_.find(job);
  return found == names_.end() ? std::set<std::string>() : found->second;
}

std::set<JobId> PodDoubts::Jobs() const {
  std::set<JobId> jobs;
  for (const auto& [job, names] : names_) {
    jobs.insert(job);
  }
  return jobs;
}

}  // namespace lockstep::control
