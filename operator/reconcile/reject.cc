#include "operator/reconcile/reject.h"

#include "operator/api/conditions.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {

Decision RejectJob(const TrainingJob& job,
                   const Observed& observed,
                   const std::string& problem,
                   WallTime now) {
  Decision decision;
  decision.status = job.status;
  TrainingJobStatus* const status = &decision.status;
  status->observed_generation = job.metadata.generation;
  if (!HasEnded(*status)) {
    SetCondition(status, {ConditionType::kFailed, true, "InvalidJob", problem}, now);
    status->completion_time = now;
    status->placement.clear();
    decision.events.push_back({EventType::kWarning, "InvalidJob", problem});
    decision.metrics.push_back({Metric::kJobsFinished, "failed", 1});
  }
  for (const kube::Pod& pod : observed.pods) {
    const auto identity = ParsePodLabels(pod.labels);
    if (identity.has_value() && identity->job_uid == job.metadata.uid && !HasEnded(pod) &&
        !pod.is_deleting) {
      decision.effects.push_back(
          DeletePod{pod.name, pod.uid, pod.spec.termination_grace, "the job cannot be read"});
    }
  }
  return decision;
}

}  // namespace lockstep::control
