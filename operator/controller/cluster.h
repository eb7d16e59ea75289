#pragma once

#include <utility>
#include <vector>

#include "common/base/result.h"
#include "operator/api/job/job_id.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// What has become of the one thing that was started for a job.
struct ClusterAnswer {
  JobId key;
  std::vector<Status> statuses;  // of StartEffects one for each effect, else one
};

// All that a decision on a job is made from, but the time.
struct JobSight {
  TrainingJob job;  // as stored: manifest and status
  Observed observed;
};

// What the controller needs of a cluster: an API server, this machine, or a simulation. What takes
// time is started, one thing at a time for each job, and answered through TakeAnswers; what is
// handed over stays where it is until then, or until Abandon. Calls come from the thread that steps
// the controller.
class Cluster {
 public:
  virtual ~Cluster() = default;

  // Finds out what has to be known before a decision on the job. After that, and before any other
  // news, Ask and See may be called.
  // Errors: kNotFound (it is gone), kUnavailable.
  virtual void StartLook(const JobId& key) = 0;

  // Makes a scheduling round if anything has changed that one could answer in another way, and
  // offers the job what it was granted. Once in each turn, before See.
  virtual void Ask(const JobId& key) = 0;

  // The job and the world around it, as of Ask. Decides nothing. Errors: kNotFound,
  // kUnavailable.
  virtual Result<JobSight> See(const JobId& key) const = 0;

  // Stores the status durably if nobody wrote that job since it was read. Until it is known what
  // has become of that, what the status would hold is taken in the eyes of the other jobs.
  // Errors: kStale (somebody did: look again), kNotFound, kUnavailable.
  virtual void StartStatusWrite(const JobId& key, const TrainingJob& job) = 0;

  // Carries out the effects, phase after phase; one that fails does not stop the later ones.
  // kAlreadyExists for CreatePod and kNotFound for DeletePod count as done. Does not wait for pods
  // to start or end. Errors: kNotFound (for all: another job has the name, or none).
  // The job is as it was when that was decided, with the status that says so.
  virtual void StartEffects(const JobId& key,
                            const TrainingJob& job,
                            const std::vector<Effect>& effects) = 0;

  // What has been answered since the last call, in order.
  virtual std::vector<ClusterAnswer> TakeAnswers() = 0;

  // Whatever was started is answered no more.
  virtual void Abandon() = 0;

  // Lets events and metrics out.
  virtual void Publish(const JobId& key, const Decision& decision) = 0;
};

// A cluster that knows of one job only, and has all answers at once.
class OneJobCluster : public Cluster {
 public:
  void StartLook(const JobId& key) final { answers_.push_back({key, {OkStatus()}}); }

  void Ask(const JobId& /*key*/) override {}  // nobody else wants the places

  void StartStatusWrite(const JobId& key, const TrainingJob& job) final {
    answers_.push_back({key, {WriteStatus(job)}});
  }

  void StartEffects(const JobId& key,
                    const TrainingJob& /*job*/,
                    const std::vector<Effect>& effects) final {
    answers_.push_back({key, ApplyEffects(effects)});
  }

  std::vector<ClusterAnswer> TakeAnswers() final { return std::exchange(answers_, {}); }

  void Abandon() final { answers_.clear(); }

 private:
  virtual Status WriteStatus(const TrainingJob& job) = 0;

  // Phase after phase.
  virtual std::vector<Status> ApplyEffects(const std::vector<Effect>& effects) = 0;

  std::vector<ClusterAnswer> answers_;
};

}  // namespace lockstep::control
