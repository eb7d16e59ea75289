#include "operator/view/pods/going_pods.h"

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/lifecycle/clean_pod_policy.h"
#include "operator/reconcile/stall.h"

namespace lockstep::control {
namespace {

// Its owner is gone, or another job of that name has come since: the cluster's garbage collector
// takes it.
bool IsOrphan(const kube::Pod& pod, const PodStand& stand) {
  return stand.is_served && !pod.owner_job.empty() &&
         (stand.job == nullptr ||
          (stand.job->key.name == pod.owner_job && stand.job->uid != pod.owner_uid));
}

// We delete the pods of a job without places, one whose successor has its place, if only after a
// look at how it ended, and of a job that has ended what its policy says. A pod that is newer than
// the places that we know stays, and so do those of a job whose status somebody has wiped: it is
// taken up from them. A job that cannot be read loses pods only with its places.
bool IsToBeDeleted(const kube::Pod& pod, const StoredJob& stored) {
  const TrainingJobStatus& status = stored.job.status;
  if (!IsOurs(stored.job) || WaitsForPods(status) ||
      FindCondition(status, ConditionType::kCreated) == nullptr) {
    return false;
  }
  if (!stored.problem.empty()) {
    return !stored.is_deleting && MustStalledPodsGo(status);
  }
  if (HasEnded(status)) {
    return IsCleaned(CleanPodPolicyOf(stored.job.spec, status), pod);
  }
  return status.placement.empty() || (!stored.is_deleting && SuccessorOf(status, pod) != nullptr);
}

}  // namespace

bool IsGoing(const kube::Pod& pod, const PodStand& stand) {
  if (stand.job == nullptr || stand.job->uid != pod.owner_uid) {
    return pod.is_deleting || IsOrphan(pod, stand);
  }
  const StoredJob& stored = *stand.job->object;
  if (stand.has_place) {
    return pod.is_deleting && stored.is_deleting;  // else a successor comes
  }
  return (pod.is_deleting && !WaitsForPods(stored.job.status)) || IsToBeDeleted(pod, stored);
}

}  // namespace lockstep::control
