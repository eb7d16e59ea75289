#pragma once

#include <compare>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/api/training_job.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

struct JobKey {
  std::string namespace_name;
  std::string name;

  friend auto operator<=>(const JobKey&, const JobKey&) = default;
};

// What the controller needs of a cluster: an API server, this machine, or a simulation.
// Calls come one at a time, from the thread that steps the controller.
class Cluster {
 public:
  virtual ~Cluster() = default;

  // The job as stored: manifest and status. Errors: kNotFound (it is gone, or about to be),
  // kUnavailable.
  virtual Result<TrainingJob> ReadJob(const JobKey& key) = 0;

  // The world around the job, now. Errors: kUnavailable.
  virtual Result<Observed> Observe(const JobKey& key) = 0;

  // Stores `job.status` durably if nobody wrote the job since it was read.
  // Errors: kStale (somebody did: gather again), kNotFound, kUnavailable.
  virtual Status WriteStatus(const TrainingJob& job) = 0;

  // Carries out the effects in order; one that fails does not stop the later ones. One answer for
  // each. kAlreadyExists for CreatePod and kNotFound for DeletePod count as done. Does not wait
  // for pods to start or end.
  virtual std::vector<Status> Apply(const JobKey& key, const std::vector<Effect>& effects) = 0;

  // Lets events and metrics out.
  virtual void Publish(const JobKey& key, const Decision& decision) = 0;
};

}  // namespace lockstep::control
