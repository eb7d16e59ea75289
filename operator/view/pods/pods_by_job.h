#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "operator/api/job/job_id.h"
#include "operator/kubeclient/kube/objects.h"

namespace lockstep::control {

// The job that controls the pod; of a pod without such a controller the one that its label names.
// No name: neither.
JobId JobOf(const kube::Pod& pod, const std::string& namespace_name);

// Whether its phase is Running.
bool IsRunning(const kube::Pod& pod);

// Which pods carry a job's name, how many of them run, and which lack labels of theirs.
class PodsByJob {
 public:
  void Add(const JobId& job, const std::string& name, const kube::Pod& pod);

  // The pod as it was added. Returns whether it was the job's last.
  bool Remove(const JobId& job, const std::string& name, const kube::Pod& pod);

  const std::set<std::string>& NamesOf(const JobId& job) const;
  const std::set<std::string>& MislabelledOf(const JobId& job) const;
  std::size_t RunningCountOf(const JobId& job) const;

 private:
  struct Entry {
    std::set<std::string> names;
    std::set<std::string> mislabelled;
    std::size_t running_count = 0;
  };

  std::map<JobId, Entry> entries_;  // no job has none
};

}  // namespace lockstep::control
