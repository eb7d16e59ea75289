#pragma once

#include <map>
#include <vector>

#include "common/base/copy_on_write.h"
#include "operator/api/job_id.h"
#include "operator/api/training_job.h"
#include "operator/kube/objects.h"

namespace lockstep::control {

// Which jobs would have room on an empty cluster. It is asked for every waiting job whenever one is
// planned, so answers are kept while they are true.
class FitMemory {
 public:
  bool WouldFit(const JobId& key,
                const TrainingJob& job,
                const CopyOnWrite<std::vector<kube::Node>>& nodes);

  // The job has changed, or the nodes have.
  void Forget(const JobId& key) { fits_.erase(key); }

  void ForgetAll() { fits_.clear(); }

 private:
  std::map<JobId, bool> fits_;
};

}  // namespace lockstep::control
