#pragma once

#include <string>
#include <utility>

#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/backoff.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// One decision in the making: what it reads, which never changes, and what it has decided so far.
// Lives on the stack of Decide.
class DecisionBuilder {
 public:
  // `job` and `observed` outlive the turn.
  DecisionBuilder(const TrainingJob& job, const Observed& observed, WallTime now);

  const TrainingJob& job() const { return job_; }

  const TrainingJobSpec& spec() const { return job_.spec; }

  const Observed& observed() const { return observed_; }

  const JobTopology& topology() const { return topology_; }

  WallTime now() const { return now_; }

  // The built-in trainer, whose survivors go on without a restart of their own.
  bool is_training() const { return job_.spec.training.has_value(); }

  // The status as decided so far.
  const TrainingJobStatus& status() const { return decision_.status; }

  // Its slices, to be changed.
  LifecycleStatus* mutable_lifecycle() { return &decision_.status; }

  PlacementStatus* mutable_placement() { return &decision_.status; }

  WaitingStatus* mutable_waiting() { return &decision_.status; }

  FailureStatus* mutable_failures() { return &decision_.status; }

  RecoveryStatus* mutable_recovery() { return &decision_.status; }

  ProgressStatus* mutable_progress() { return &decision_.status; }

  ExternalStatus* mutable_external() { return &decision_.status; }

  // At the begin of a turn: takes out of the status, as it was read, what cannot be true at `now`.
  void Correct(TrainingJobStatus (*corrected)(TrainingJobStatus, WallTime)) {
    decision_.status = corrected(std::move(decision_.status), now_);
  }

  // Sets a condition, and says so once in an event when it becomes true or changes its reason.
  void Set(const ConditionChange& change, EventType type = EventType::kNormal);

  // Sets a condition of which nobody needs an event.
  void SetQuietly(const ConditionChange& change) { SetCondition(&decision_.status, change, now_); }

  // Ends the job as failed. Only the first end counts.
  void Fail(const std::string& reason, const std::string& message);

  // `T` is one of Effect's types. A variant that is moved makes GCC 12 warn of uninitialized
  // values.
  template <typename T>
  void Do(T effect) {
    decision_.effects.emplace_back(std::move(effect));
  }

  // Asks a pod to end, unless that was asked before; a `grace` of zero is always passed on, because
  // it may have become urgent.
  void Delete(const kube::Pod& pod, std::chrono::seconds grace, const std::string& reason);

  // Once in a turn, though one happening may set several conditions.
  void Say(EventType type, const std::string& reason, const std::string& message);

  // `queue`, `ask_class`: of a metric that is counted by them.
  void Count(Metric metric,
             const std::string& label,
             const std::string& queue = "",
             const std::string& ask_class = "") {
    decision_.metrics.push_back({metric, label, 1, queue, ask_class});
  }

  // Look again at `when`; moments that have passed are ignored.
  void WakeAt(WallTime when);

  // Leaves the gang unplaced for a while, longer with each time in a row up to `delay_max`, and
  // says why.
  void HoldBack(const std::string& reason,
                const std::string& message,
                std::chrono::seconds delay_max = kRollbackDelayMax);

  // The placement of a task. Precondition (checked): there is one.
  PodPlacement* PlacementOf(const TaskId& task);

  // The finished decision, its effects in the order of Effect's kinds: room is made before it is
  // taken, and successors start before anybody waits for an answer. The turn is over.
  Decision Take();

 private:
  const TrainingJob& job_;
  const Observed& observed_;
  WallTime now_;
  JobTopology topology_;
  Decision decision_;
};

}  // namespace lockstep::control
