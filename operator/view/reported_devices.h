#pragma once

#include <map>
#include <set>
#include <string>

#include "operator/api/job/job_id.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Which GPUs the pods of jobs that have not ended have reported, by node: who else is seen on a
// node is asked at every turn of a job, so it must not cost a look at every job. Thread: one.
class ReportedDevices {
 public:
  // Of a job as it is stored now; what was added of it before is to be removed first.
  void Add(const JobId& job, const TrainingJobStatus& status);

  // With the status that was added.
  void Remove(const JobId& job, const TrainingJobStatus& status);

  // By node, of those that the job is placed on: UUIDs that pods of other jobs have reported.
  std::map<std::string, std::set<std::string>> OfOthers(const JobId& job,
                                                        const TrainingJobStatus& status) const;

 private:
  std::map<std::string, std::map<JobId, std::set<std::string>>> jobs_by_node_;
};

}  // namespace lockstep::control
