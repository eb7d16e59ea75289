#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
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

  // The job as stored: manifest and status. Errors: kNotFound (it is gone), kUnavailable.
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

struct ControllerOptions {
  // A pass that failed is repeated after `retry_delay_min`, doubling up to the maximum.
  Duration retry_delay_min = std::chrono::milliseconds(100);  // choice: a hiccup goes unnoticed
  Duration retry_delay_max = std::chrono::seconds(30);        // choice: an outage is not hammered
};

// Gathers, decides and acts, one job at a time. No threads, no sockets, no clock of its own: the
// caller says what time it is and when something changed.
//
// Calendar time runs with the monotonic clock from construction on, so that a step of the
// calendar clock neither expires nor extends a deadline.
// Thread: one. `cluster` and `logger` outlive it.
class Controller {
 public:
  // `now` and `wall_now` are the same moment on both clocks.
  Controller(Cluster* cluster,
             Logger* logger,
             TimePoint now,
             WallTime wall_now,
             ControllerOptions options = {});

  // Something about the job changed: its manifest, a pod, a node, a report. Many calls before the
  // next Step make one pass.
  void Notify(const JobKey& key);

  // Makes one pass for one job that changed or whose time has come; false when none is due.
  bool Step(TimePoint now);

  // When Step has something to do if nothing changes before: in the past while jobs are waiting,
  // null if never.
  std::optional<TimePoint> NextStep() const;

 private:
  // Gathers, decides, writes, acts. Returns false when the pass has to be repeated.
  bool RunPass(const JobKey& key, TimePoint now);
  bool NoteReadFailure(const JobKey& key, const Error& error);
  bool ApplyEffects(const JobKey& key, const std::vector<Effect>& effects);
  WallTime WallAt(TimePoint now) const;
  void SetTimer(const JobKey& key, TimePoint when);  // keeps an earlier one
  void CancelTimer(const JobKey& key);
  void ScheduleRetry(const JobKey& key, TimePoint now);

  Cluster* cluster_;
  Logger* logger_;
  ControllerOptions options_;
  TimePoint start_;
  WallTime wall_start_;
  std::set<JobKey> changed_;
  JobKey last_stepped_;
  // The timer heap, ordered and searchable: at most one moment for each job.
  std::set<std::pair<TimePoint, JobKey>> timers_;
  std::map<JobKey, TimePoint> timer_of_;
  std::map<JobKey, int> failures_;  // passes that failed in a row
};

}  // namespace lockstep::control
