#include "operator/view/jobs/job_usage.h"

#include <map>
#include <set>
#include <utility>

#include "common/contract/environment/topology.h"
#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/view/pods/going_pods.h"

namespace lockstep::control {
namespace {

// The node of what has none yet.
constexpr const char* kNowhere = "";

struct PromisedPlace {
  Role role = Role::kWorker;
  const GangOrigin* origin = nullptr;
};

// Whose place it is, by pod name and node. A pod has more than one while it is about to get
// another. One that waits for its place has kNowhere: its queue is charged for it all the same.
using Promised = std::map<std::string, std::map<std::string, PromisedPlace>>;

bool IsOwn(const kube::Pod& pod, const kube::Item<StoredJob>* job) {
  return job != nullptr && pod.owner_uid == job->uid;
}

void AddPromised(const std::string& job, const TrainingJobStatus& status, Promised* promised) {
  if (HasEnded(status)) {
    return;
  }
  for (const PodPlacement& placement : status.placement) {
    if (!placement.is_completed) {
      const std::string name = PlacedPodName(job, status.attempt, placement);
      (*promised)[name].try_emplace(placement.node, PromisedPlace{placement.role, &status.origin});
    }
  }
}

// Where one has its place, or is about to, it waits for none.
void ForgetWaits(Promised* promised) {
  for (auto& [pod, places] : *promised) {
    if (places.size() > 1) {
      places.erase(kNowhere);
    }
  }
}

// The pods whose place is about to be their successor's: the gang asks for no more room than
// before, and what they hold comes free once the status that is on its way is written.
std::set<std::string> Succeeded(const std::string& job,
                                const TrainingJobStatus& is,
                                const TrainingJobStatus& next) {
  std::set<std::string> names;
  for (const PodPlacement& placement : is.placement) {
    const PodPlacement* const successor = FindPlacement(next, TaskOf(placement));
    if (is.attempt == next.attempt && successor != nullptr &&
        placement.incarnation < successor->incarnation) {
      names.insert(PlacedPodName(job, is.attempt, placement));
    }
  }
  return names;
}

void AddGoing(const std::string& node, const kube::Pod& pod, bool is_own, JobUsage* held) {
  AddPod(node, pod.spec.container.requests, is_own ? &held->going : &held->orphans);
  if (const std::optional<WallTime> overdue = OverdueAt(pod)) {
    AddPod(node, pod.spec.container.requests, &held->stuck_from[*overdue]);
  } else if (!pod.is_deleting) {
    AddPod(node, pod.spec.container.requests, &held->unasked[pod.uid]);
  }
}

}  // namespace

JobUsage UsageOf(const kube::Item<StoredJob>* job,
                 const TrainingJobStatus* reserved,
                 const std::vector<const kube::Item<kube::Pod>*>& pods,
                 bool is_served) {
  JobUsage held;
  Promised promised;
  if (job != nullptr) {
    AddPromised(job->key.name, job->object->job.status, &promised);
  }
  std::set<std::string> succeeded;
  if (job != nullptr && reserved != nullptr) {
    AddPromised(job->key.name, *reserved, &promised);
    succeeded = Succeeded(job->key.name, job->object->job.status, *reserved);
  }
  ForgetWaits(&promised);
  for (const kube::Item<kube::Pod>* const item : pods) {
    const kube::Pod& pod = *item->object;
    if (HasEnded(pod)) {
      continue;  // its place stays promised to its successor
    }
    const bool is_own = IsOwn(pod, job);
    std::string node = pod.spec.node_name;
    const auto places = promised.find(item->key.name);
    const bool has_place = is_own && places != promised.end() && !places->second.contains(kNowhere);
    if (has_place) {
      if (node.empty() && !places->second.empty()) {
        node = places->second.begin()->first;
      }
      places->second.erase(node);
    }
    if (node.empty()) {
      continue;
    }
    const bool is_going =
        (is_own && succeeded.contains(item->key.name)) || IsGoing(pod, {job, is_served, has_place});
    if (is_going) {
      AddGoing(node, pod, is_own, &held);
    }
    if (is_own || !is_going) {
      AddPod(node, pod.spec.container.requests, is_own ? &held.own : &held.strangers);
    }
  }
  // The pods of a role ask for the same: summed up once a role, not once a pod.
  std::map<std::pair<const GangOrigin*, Role>, ResourceVector> requests;
  for (const auto& [name, places] : promised) {
    for (const auto& [node, place] : places) {
      const auto [known, is_new] = requests.try_emplace({place.origin, place.role});
      if (is_new) {
        known->second = HeldRequests(job->object->job, *place.origin, place.role);
      }
      const ResourceVector& request = known->second;
      AddPod(node, request, &held.own);
      if (succeeded.contains(name)) {
        AddPod(node, request, &held.going);
      }
    }
  }
  return held;
}

std::string PlacedPodName(const std::string& job, Attempt attempt, const PodPlacement& placement) {
  return PodName(job, TaskOf(placement), {attempt, placement.incarnation});
}

}  // namespace lockstep::control
