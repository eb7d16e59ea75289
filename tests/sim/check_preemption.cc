#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/contract/environment/relaunch.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/derived_status.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "tests/sim/checks.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// Gangs that go so that others can start.
namespace lockstep::control::sim {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";

// A pod that was asked to go may be given up as stuck after its grace and as long again; then its
// claim is.
constexpr std::chrono::seconds kClaimIsSure{30};

int64_t GpusOf(const Json& object, const TrainingJob& job) {
  int64_t gpus = 0;
  for (const PodPlacement& placement : job.status.placement) {
    gpus += AmountOf(RequestsOfRole(object, placement.role), kGpu);
  }
  return gpus;
}

// What has come to be known to be free, or is forgotten, is no charge.
bool IsNothingCharged(const TrainingJobStatus& was, const TrainingJobStatus& is) {
  return TotalRestarts(was) == TotalRestarts(is) && was.quick_restarts == is.quick_restarts &&
         was.rollbacks == is.rollbacks &&
         CountedIncidents(is.incidents) <= CountedIncidents(was.incidents);
}

bool Names(const RoomClaim& claim, const TrainingJob& job) {
  return std::any_of(claim.gangs.begin(), claim.gangs.end(), [&](const ClaimedGang& gang) {
    return gang.uid == job.metadata.uid && gang.attempt == job.status.attempt;
  });
}

int64_t PriorityOf(const ObjectStore& store, const SchedulingSpec& share) {
  const ObjectPtr found = store.Get(kube::kPriorityClasses, {"", share.priority_class_name});
  return found == nullptr ? 0 : found->at("value").get<int64_t>();
}

// Whether the job waits for places, as far as its users are concerned.
bool Waits(const ObjectPtr& object, const TrainingJob& job) {
  return !HasEnded(job.status) && !IsDeleting(*object) && !job.spec.run_policy.suspend &&
         job.status.placement.empty();
}

// Whether the room that is kept for one is the other's, which has a higher priority in a queue that
// has others go for that.
bool MayTakeOver(const ObjectStore& store, const TrainingJob& job, const TrainingJob& claimant) {
  return job.spec.scheduling.queue == "owner" &&
         job.spec.scheduling.queue == claimant.spec.scheduling.queue &&
         PriorityOf(store, job.spec.scheduling) > PriorityOf(store, claimant.spec.scheduling);
}

}  // namespace

// Null: it is not there.
ObjectPtr Checks::PodAt(const TrainingJob& job, const PodPlacement& placement) const {
  const std::string name = PodName(job.metadata.name,
                                   {placement.role, static_cast<int>(placement.index)},
                                   {job.status.attempt, placement.incarnation});
  return server_->store().Get(kube::kPods, {job.metadata.namespace_name, name});
}

// Whether a pod of the gang may be noted for what has happened to itself.
bool Checks::HasLosses(const TrainingJobStatus& status) const {
  const std::vector<PodPlacement>& places = status.placement;
  return std::any_of(places.begin(), places.end(), [&](const PodPlacement& placement) {
    return HasSuffered(placement.pod_uid) || MaySeemLost(placement.node);
  });
}

// Nobody goes but for one whose stored status asks for that very gang, and it costs nothing.
void Checks::CheckPreemption(const ObjectPtr& before_object, const ObjectPtr& after_object) {
  const TrainingJob& after = jobs_.Of(after_object);
  const TrainingJobStatus& was = jobs_.Of(before_object).status;
  const TrainingJobStatus& is = after.status;
  const bool is_new =
      is.claim.has_value() && (!was.claim.has_value() || was.claim->since != is.claim->since);
  if (is.claim.has_value()) {
    for (const ClaimedGang& gang : is.claim->gangs) {
      claimed_.insert({gang.uid, gang.attempt});
    }
    Require(is_new || was.observed_generation == is.observed_generation,
            NameOf(after) + ": what was claimed for it is claimed though it was edited since");
  }
  NoteShareOf(jobs_.Of(before_object), after);
  if (is_new) {
    claimed_at_[after.metadata.uid] = context_->now;
    CheckReclaim(after);
    CheckPriorities(after);
  }
  if (was.preemptions != is.preemptions) {
    context_->Count("a gang that goes for another");
    Require(is.preemptions == was.preemptions + 1 &&
                is.attempt == AttemptOfPrograms(was.attempt, was.relaunch.count).Next() &&
                !was.placement.empty() && is.placement.empty(),
            NameOf(after) + ": a gang went for another and stays");
    Require(HasLosses(was) || IsNothingCharged(was, is),
            NameOf(after) + ": what another asked for was charged to it");
    Require(claimed_.contains({after.metadata.uid, was.attempt}),
            NameOf(after) + ": a gang went for nobody");
    gone_.insert({after.metadata.uid, was.attempt});
  }
  if (was.claim.has_value() && was.placement.empty() && !is.placement.empty()) {
    CheckRoomIsFree(after);
  }
  if (was.placement.empty() && !is.placement.empty() && context_->has_shares) {
    CheckRoomIsKept(after_object);
  }
}

// Of when what operators know of the cluster may be.
TimePoint Checks::OldestView() const {
  return (context_->now - context_->outage_until < kViewLag ? context_->outage_since
                                                            : context_->now) -
         kViewLag;
}

void Checks::NoteShareOf(const TrainingJob& before, const TrainingJob& after) {
  if (after.status.placement.empty()) {
    return;
  }
  if (before.status.placement.empty()) {
    placed_by_[after.metadata.uid] = after.spec.scheduling;
  }
  const SchedulingSpec share = ShareOf(after);
  const GangOrigin& origin = after.status.origin;
  Require(origin.queue == (share.queue.empty() ? "default" : share.queue) &&
              origin.priority_class == share.priority_class_name,
          NameOf(after) + ": its gang is in queue " + origin.queue + " with priority class " +
              origin.priority_class + " and was placed in " + share.queue + " with " +
              share.priority_class_name);
}

// In whose name the job has its places, or asks for some. An edit counts for the next gang.
SchedulingSpec Checks::ShareOf(const TrainingJob& job) const {
  const auto known = placed_by_.find(job.metadata.uid);
  return job.status.placement.empty() || known == placed_by_.end() ? job.spec.scheduling
                                                                   : known->second;
}

// Who goes for one of the same queue had less priority when it got its places.
void Checks::CheckPriorities(const TrainingJob& claimant) {
  const SchedulingSpec& own = claimant.spec.scheduling;
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    const SchedulingSpec share = ShareOf(job);
    if (share.queue == own.queue && Names(*claimant.status.claim, job)) {
      Require(PriorityOf(server_->store(), share) < PriorityOf(server_->store(), own),
              NameOf(claimant) + ": has " + NameOf(job) +
                  " go, of its own queue and of no lower priority");
    }
  }
}

// What gangs with places hold, which queues have pay for.
void Checks::NoteShares() {
  if (!context_->has_shares) {
    return;
  }
  std::map<std::string, int64_t> held;
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    held[ShareOf(job).queue] += HasEnded(job.status) ? 0 : GpusOf(*object, job);
  }
  for (const auto& [queue, gpus] : held) {
    std::map<TimePoint, int64_t>& known = gpus_held_[queue];
    known[context_->now] = std::max(known[context_->now], gpus);
    // The last before the time that counts was true at its beginning.
    while (known.size() > 1 && std::next(known.begin())->first <= OldestView()) {
      known.erase(known.begin());
    }
  }
}

// Other queues give back no more than they hold above their nominal amounts, but that gangs go
// whole.
void Checks::CheckReclaim(const TrainingJob& claimant) {
  NoteShares();
  std::map<std::string, std::vector<int64_t>> given;  // by queue
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    const std::string queue = ShareOf(job).queue;
    if (queue != claimant.spec.scheduling.queue && Names(*claimant.status.claim, job)) {
      given[queue].push_back(GpusOf(*object, job));
    }
  }
  for (const auto& [queue, gpus] : given) {
    context_->Count("room that is taken back");
    int64_t held = 0;
    for (const auto& [when, then] : gpus_held_[queue]) {
      held = std::max(held, then);
    }
    for (const int64_t one : gpus) {
      held -= one;
    }
    const ObjectPtr object = server_->store().Get(kube::kTrainingQueues, {"", queue});
    const int64_t nominal =
        object == nullptr ? 0 : 1000 * object->at("spec").at("nominal").at(kGpu).get<int64_t>();
    Require(held + *std::max_element(gpus.begin(), gpus.end()) > nominal,
            NameOf(claimant) + ": takes back from queue " + queue + " what is its own: leaves it " +
                std::to_string(held) + " milli-GPUs of " + std::to_string(nominal));
  }
}

// Whether the job still has this very gang.
bool Checks::HasPlaces(const ClaimedGang& gang) const {
  const std::size_t slash = gang.job.find('/');
  const ObjectPtr object = server_->store().Get(
      kube::kTrainingJobs, {gang.job.substr(0, slash), gang.job.substr(slash + 1)});
  return object != nullptr && UidOf(*object) == gang.uid &&
         jobs_.Of(object).status.attempt == gang.attempt;
}

// Whether nothing can have happened for which what is kept for the job would be given up.
bool Checks::IsKept(const ObjectPtr& claimant) const {
  const TrainingJob& job = jobs_.Of(claimant);
  const TrainingJobStatus& status = job.status;
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  const auto since = claimed_at_.find(job.metadata.uid);
  if (!status.claim.has_value() || status.claim->gangs.empty() || HasEnded(status) ||
      IsDeleting(*claimant) || job.spec.run_policy.suspend ||
      job.metadata.generation != status.observed_generation || scheduled == nullptr ||
      scheduled->reason != "WaitsForOthersToGo" || since == claimed_at_.end() ||
      context_->now - since->second >= kClaimIsSure) {
    return false;
  }
  // A gang that leaves its places by itself leaves them to the next of its own job.
  const std::vector<ClaimedGang>& gangs = status.claim->gangs;
  const bool all_go = std::all_of(gangs.begin(), gangs.end(), [&](const ClaimedGang& gang) {
    return HasPlaces(gang) || gone_.contains({gang.uid, gang.attempt});
  });
  const std::vector<ClaimedPlace>& places = status.claim->places;
  return all_go && std::all_of(places.begin(), places.end(), [&](const ClaimedPlace& place) {
           const ObjectPtr node = server_->store().Get(kube::kNodes, {"", place.node});
           return IsNodeGood(place.node) && !node->at("spec").value("unschedulable", false);
         });
}

// What is held of each node beside those who go for the claimant, with what is kept for it, but for
// the gang that was placed last.
std::map<std::string, Amounts> Checks::HeldBeside(const TrainingJob& claimant,
                                                  const TrainingJob& placed) {
  std::map<std::string, Amounts> held;
  const RoomClaim& claim = *claimant.status.claim;
  std::set<std::string> counted;  // uids of jobs whose pods are counted by their places, or go
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    counted.insert(job.metadata.uid);
    if (job.metadata.uid == placed.metadata.uid || HasEnded(job.status) || Names(claim, job)) {
      continue;
    }
    for (const PodPlacement& placement : job.status.placement) {
      const ObjectPtr pod = PodAt(job, placement);
      if (!placement.is_completed && (pod == nullptr || !HasPodEnded(*pod))) {
        AddTo(&held[placement.node], RequestsOfRole(*object, placement.role));
      }
    }
    for (const ClaimedPlace& place : claim.places) {
      if (job.metadata.uid == claimant.metadata.uid) {
        AddTo(&held[place.node], RequestsOfRole(*object, Role::kWorker));
      }
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    const std::string node = NodeWantedBy(*pod);
    if (!node.empty() && !HasPodEnded(*pod) && !counted.contains(JobUidOf(*pod))) {
      AddTo(&held[node], RequestsOfPod(*pod));
    }
  }
  return held;
}

// Whether the room may be somebody else's by now, whose status and the claimant's do not say so
// yet.
bool Checks::MayBeTakenOver(const TrainingJob& claimant) const {
  const auto& objects = server_->store().Of(kube::kTrainingJobs).objects;
  const bool may_be = std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    const TrainingJob& job = jobs_.Of(entry.second);
    return Waits(entry.second, job) && MayTakeOver(server_->store(), job, claimant);
  });
  if (may_be) {
    context_->Count("room that a higher priority may have taken over");
  }
  return may_be;
}

// Nobody takes the room that others go for in between.
void Checks::CheckRoomIsKept(const ObjectPtr& placed_object) {
  const TrainingJob& placed = jobs_.Of(placed_object);
  if (context_->now - cluster_since_ < kViewLag || server_->admission.raised_count > 0) {
    return;
  }
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& claimant = jobs_.Of(object);
    if (claimant.metadata.uid == placed.metadata.uid || !IsKept(object) ||
        MayTakeOver(server_->store(), placed, claimant)) {
      continue;
    }
    std::map<std::string, Amounts> held = HeldBeside(claimant, placed);
    const std::vector<ClaimedPlace>& kept = claimant.status.claim->places;
    for (const PodPlacement& placement : placed.status.placement) {
      if (std::none_of(kept.begin(), kept.end(), [&](const ClaimedPlace& place) {
            return place.node == placement.node;
          })) {
        continue;
      }
      const ObjectPtr node = server_->store().Get(kube::kNodes, {"", placement.node});
      if (node == nullptr || !Shortage(AllocatableOf(*node), {}, held[placement.node]).empty()) {
        continue;  // it does not fit anyhow: the claim is void
      }
      AddTo(&held[placement.node], RequestsOfRole(*placed_object, placement.role));
      Require(Shortage(AllocatableOf(*node), {}, held[placement.node]).empty() ||
                  MayBeTakenOver(claimant),
              NameOf(placed) + ": takes the room on " + placement.node +
                  " that others go for, for " + claimant.metadata.name);
    }
  }
}

// By the pods that are there, and what is promised to those that are still to come.
void Checks::CheckRoomIsFree(const TrainingJob& placed) {
  std::map<std::string, Amounts> held;
  std::map<std::string, Attempt> attempts;  // by job uid, of gangs with places
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    if (HasEnded(job.status) || job.status.placement.empty()) {
      continue;
    }
    attempts[job.metadata.uid] = job.status.attempt;
    for (const PodPlacement& placement : job.status.placement) {
      if (!placement.is_completed) {
        AddTo(&held[placement.node], RequestsOfRole(*object, placement.role));
      }
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    const std::string node = TextAt(*pod, "spec.nodeName");
    const auto identity = ParsePodLabels(LabelsOf(*pod));
    if (node.empty() || HasPodEnded(*pod) || !identity.has_value() ||
        identity->job_uid != JobUidOf(*pod)) {
      continue;
    }
    const auto attempt = attempts.find(identity->job_uid);
    if (attempt == attempts.end() || attempt->second != identity->number.attempt) {
      AddTo(&held[node], RequestsOfPod(*pod));
    }
  }
  for (const PodPlacement& placement : placed.status.placement) {
    const ObjectPtr node = server_->store().Get(kube::kNodes, {"", placement.node});
    if (node == nullptr || !IsNodeGood(placement.node)) {
      continue;
    }
    const std::string resource = Shortage(AllocatableOf(*node), {}, held[placement.node]);
    Require(resource.empty(),
            NameOf(placed) + ": placed on " + placement.node +
                " before those had gone who were asked to: " + resource);
  }
}

}  // namespace lockstep::control::sim
