#pragma once

#include <map>
#include <set>
#include <string>

#include "operator/api/job/job_id.h"

namespace lockstep::control {

// Names of pods, by the job that wants to know: whether the server has them is in doubt.
class PodDoubts {
 public:
  void Begin(const JobId& job, const std::string& name) { names_[job].insert(name); }

  void End(const JobId& job, const std::string& name);

  void EndAll(const JobId& job) { names_.erase(job); }

  std::set<std::string> Of(const JobId& job) const;

  std::set<JobId> Jobs() const;

 private:
  std::map<JobId, std::set<std::string>> names_;  // no job has none
};

}  // namespace lockstep::control
