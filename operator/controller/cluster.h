#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/api/job_id.h"
#include "operator/api/training_job.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// What is to be done for one job.
struct JobEffects {
  JobId key;
  std::vector<Effect> effects;
};

// What the controller needs of a cluster: an API server, this machine, or a simulation.
// Calls come one at a time, from the thread that steps the controller.
class Cluster {
 public:
  virtual ~Cluster() = default;

  // The job as stored: manifest and status. Errors: kNotFound (it is gone, or about to be),
  // kUnavailable.
  virtual Result<TrainingJob> ReadJob(const JobId& key) = 0;

  // The world around the job, now. Errors: kUnavailable.
  virtual Result<Observed> Observe(const JobId& key) = 0;

  // `job.status` has been decided and is about to be written. Until WriteStatuses has answered,
  // what it would hold is taken in the eyes of the other jobs.
  virtual void Reserve(const TrainingJob& job) = 0;

  // Stores the status of each job durably if nobody wrote that job since it was read. One answer
  // for each. Errors: kStale (somebody did: gather again), kNotFound, kUnavailable.
  virtual std::vector<Status> WriteStatuses(const std::vector<TrainingJob>& jobs) = 0;

  // Carries out the effects, of each job in order; one that fails does not stop the later ones.
  // One answer for each. kAlreadyExists for CreatePod and kNotFound for DeletePod count as done.
  // Does not wait for pods to start or end.
  virtual std::vector<std::vector<Status>> Apply(const std::vector<JobEffects>& jobs) = 0;

  // Lets events and metrics out.
  virtual void Publish(const JobId& key, const Decision& decision) = 0;
};

// A cluster that knows of one job only.
class OneJobCluster : public Cluster {
 public:
  void Reserve(const TrainingJob& /*job*/) final {}  // there is nobody else

  std::vector<Status> WriteStatuses(const std::vector<TrainingJob>& jobs) final {
    std::vector<Status> answers;
    for (const TrainingJob& job : jobs) {
      answers.push_back(WriteStatus(job));
    }
    return answers;
  }

  std::vector<std::vector<Status>> Apply(const std::vector<JobEffects>& jobs) final {
    std::vector<std::vector<Status>> answers;
    for (const JobEffects& job : jobs) {
      answers.push_back(ApplyEffects(job.effects));
    }
    return answers;
  }

 private:
  virtual Status WriteStatus(const TrainingJob& job) = 0;
  virtual std::vector<Status> ApplyEffects(const std::vector<Effect>& effects) = 0;
};

}  // namespace lockstep::control
