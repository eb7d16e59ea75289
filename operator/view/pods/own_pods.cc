#include "operator/view/pods/own_pods.h"

#include "operator/api/fields/pod_label_names.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {
namespace {

bool IsOwned(const StoredJob* job, const kube::Pod& pod) {
  return job != nullptr && !pod.owner_uid.empty() && pod.owner_uid == job->job.metadata.uid;
}

bool HasNoEnd(const kube::Pod& pod) {
  return !pod.is_deleting && !HasEnded(pod);
}

}  // namespace

bool IsFollowed(const StoredJob* job, const kube::Pod& pod) {
  return pod.labels.count(label::kJob) > 0 || IsOwned(job, pod);
}

bool MayBeDeselected(const StoredJob* job,
                     const kube::Item<kube::Pod>* known,
                     const kube::Item<kube::Pod>& gone) {
  return known != nullptr && known->uid == gone.uid && IsOwned(job, *known->object) &&
         HasNoEnd(*known->object) && HasNoEnd(*gone.object);
}

}  // namespace lockstep::control
