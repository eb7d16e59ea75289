// What scheduling rounds are told of the cluster, and when.

#include <algorithm>
#include <utility>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/view/cluster_view.h"
#include "operator/view/jobs/run_kinds.h"
#include "operator/view/jobs/stand_of_job.h"
#include "operator/view/stored/queue_status.h"

namespace lockstep::control {
namespace {

std::optional<WallTime> EarlierOf(std::optional<WallTime> a, std::optional<WallTime> b) {
  return !a ? b : !b ? a : std::min(*a, *b);
}

}  // namespace

void ClusterView::Apply(const kube::ObjectUpdate<StoredQueue>& queues, News* news) {
  std::vector<kube::ObjectKey> doubtful;  // none: we never write one
  bool have_changed = false;
  queues_.Apply(queues, &doubtful, [&](const auto& change) {
    have_changed = have_changed || change.before == nullptr || change.after == nullptr ||
                   change.before->queue != change.after->queue ||
                   change.before->problem != change.after->problem;  // what we write is no news
  });
  if (have_changed) {
    are_queues_stale_ = true;
    news->frees_room = true;
    NoteRunTimeLimits(news);
  }
}

// Jobs whose limit is another now have their turns: they may be over it.
void ClusterView::NoteRunTimeLimits(News* news) {
  std::map<JobId, std::optional<RunTimeLimit>> before;
  for (const auto& [key, entry] : jobs_.entries()) {
    const JobId job{key.namespace_name, key.name};
    before[job] = RunTimeLimitOf(job);
  }
  run_time_limits_ = RunTimeLimits(Queues());
  for (const auto& [job, limit] : before) {
    if (RunTimeLimitOf(job) != limit) {
      stale_stands_.insert(job);
      news->urgent.insert(job);
    }
  }
}

void ClusterView::Apply(const kube::ObjectUpdate<PriorityClass>& classes, News* news) {
  std::vector<kube::ObjectKey> doubtful;  // none: we never write one
  class_cache_.Apply(classes, &doubtful, [&](const auto& change) {
    const bool was_there = change.before != nullptr;
    const bool is_there = change.after != nullptr;
    if (!was_there && !is_there) {
      return;
    }
    const bool was_default = was_there && change.before->is_default;
    const bool is_default = is_there && change.after->is_default;
    if (is_there) {
      classes_[change.key.name] = *change.after;
    } else {
      classes_.erase(change.key.name);
    }
    if (was_there && is_there && *change.before == *change.after) {
      return;
    }
    for (const auto& [key, entry] : jobs_.entries()) {
      const JobId job{key.namespace_name, key.name};
      const std::string name = ClassOf(job, entry.item.object->job);
      if (name == change.key.name || (name.empty() && (was_default || is_default))) {
        stale_stands_.insert(job);
        news->frees_room = true;
        const bool is_told = was_there != is_there && PlacedStatusOf(job, entry.item.object->job);
        if (is_told || AwaitsKueue(entry.item.object->job)) {
          news->urgent.insert(job);
        }
      }
    }
  });
}

// Jobs that asked for Kueue before it was seen have their turns when it is.
template <typename T>
void ClusterView::ApplyToKueue(const kube::ObjectUpdate<T>& update, News* news) {
  const bool was_followed = kueue_.is_followed();
  news->urgent.merge(kueue_.Apply(update));
  if (was_followed || !kueue_.is_followed()) {
    return;
  }
  for (const auto& [created, key] : by_age_) {
    if (AwaitsKueue(FindJob(key)->job)) {
      news->urgent.insert(key);
    }
  }
}

void ClusterView::Apply(const kube::ObjectUpdate<StoredWorkload>& workloads, News* news) {
  ApplyToKueue(workloads, news);
}

void ClusterView::Apply(const kube::ObjectUpdate<StoredFlavor>& flavors, News* news) {
  ApplyToKueue(flavors, news);
}

// Jobs that asked for nodes before the objects were seen have their turns when they are.
template <typename T>
void ClusterView::ApplyToProvisioning(const kube::ObjectUpdate<T>& update,
                                      Provisioning by,
                                      News* news) {
  const bool was_followed = provisioning_.IsFollowed(by);
  // Of placeholder pods a gang has hundreds, which are looked at together.
  (by == Provisioning::kPods ? news->calm : news->urgent).merge(provisioning_.Apply(update));
  if (was_followed || !provisioning_.IsFollowed(by)) {
    return;
  }
  for (const auto& [created, key] : by_age_) {
    const TrainingJob& job = FindJob(key)->job;
    if (job.spec.scheduling.provisioning == by && job.status.placement.empty()) {
      news->urgent.insert(key);
    }
  }
}

void ClusterView::Apply(const kube::ObjectUpdate<StoredProvisioningRequest>& requests, News* news) {
  ApplyToProvisioning(requests, Provisioning::kProvisioningRequest, news);
}

void ClusterView::Apply(const kube::ObjectUpdate<StoredPodTemplate>& templates, News* news) {
  ApplyToProvisioning(templates, Provisioning::kProvisioningRequest, news);
}

void ClusterView::Apply(const kube::ObjectUpdate<StoredPlaceholder>& placeholders, News* news) {
  ApplyToProvisioning(placeholders, Provisioning::kPods, news);
}

// Jobs that wait to be placed natively stand for places where PodGroups are seen, and nowhere else;
// and they say what is missing.
void ClusterView::LookAtNativeJobs(News* news) {
  for (const auto& [created, key] : by_age_) {
    const TrainingJob& job = FindJob(key)->job;
    if (job.spec.scheduling.binding == PodBinding::kNative && job.status.placement.empty()) {
      stale_stands_.insert(key);
      news->urgent.insert(key);
      news->frees_room = true;
    }
  }
}

void ClusterView::Apply(const kube::ObjectUpdate<StoredPodGroup>& groups, News* news) {
  const bool were_listed = pod_groups_.is_listed();
  news->urgent.merge(pod_groups_.Apply(groups));
  if (!were_listed && pod_groups_.is_listed()) {
    LookAtNativeJobs(news);
  }
}

void ClusterView::NotePodGroups(kube::PodGroupsFound found, News* news) {
  if (found == pod_groups_found_) {
    return;
  }
  if (found.version != pod_groups_found_.version) {
    pod_groups_ = {};
  }
  pod_groups_found_ = std::move(found);
  LookAtNativeJobs(news);
}

NativeSight ClusterView::NativeOf(const JobId& key) const {
  const StoredJob* const stored = FindJob(key);
  NativeSight sight;
  sight.is_followed = SeesPodGroups();
  sight.served = pod_groups_found_;
  if (stored != nullptr) {
    sight.groups = pod_groups_.SightOf(stored->job.metadata);
  }
  return sight;
}

ProvisioningSight ClusterView::ProvisioningOf(const JobId& key) const {
  const StoredJob* const stored = FindJob(key);
  return stored == nullptr ? ProvisioningSight() : provisioning_.SightOf(stored->job.metadata);
}

KueueSight ClusterView::KueueOf(const JobId& key) const {
  const StoredJob* const stored = FindJob(key);
  if (stored == nullptr || !kueue_.is_followed()) {
    return {};
  }
  KueueSight sight = kueue_.SightOf(stored->job.metadata);
  const PriorityTerms terms = TermsOfClass(classes_, PriorityClassOf(stored->job.spec));
  sight.priority = terms.priority;
  sight.missing_class = terms.missing;
  return sight;
}

NodeUsage ClusterView::UsedByStrangers(const std::string& node) {
  UsageByNode used;
  for (const UsageByNode* const part : {&usage_.ByStrangers(), &*foreign_.room()}) {
    if (const auto found = part->find(node); found != part->end()) {
      AddUsage({*found}, &used);
    }
  }
  return used[node];
}

std::vector<StoredQueue> ClusterView::Queues() const {
  std::vector<StoredQueue> queues;
  for (const auto& [key, entry] : queues_.entries()) {
    queues.push_back(*entry.item.object);
  }
  return queues;
}

QueueOrder ClusterView::QueueOrderOf(const std::string& queue) const {
  const auto found = queues_.entries().find({"", queue});
  return found == queues_.entries().end() ? QueueOrder::kFifo
                                          : found->second.item.object->queue.order;
}

void ClusterView::NoteReleases(std::vector<OtherRelease> releases, News* news) {
  if (releases != releases_) {
    releases_ = std::move(releases);
    are_queues_stale_ = true;
    news->frees_room = true;
  }
}

std::map<std::string, QueueStatus> ClusterView::QueueStandings() const {
  const std::vector<StoredQueue> queues = Queues();
  std::map<std::string, QueueStatus> standings = QueueStatuses(queues, allocator_.state());
  for (const auto& [name, why] : QueuesServedElsewhere(queues, namespaces_, releases_)) {
    standings.erase(name);
  }
  return standings;
}

std::map<std::string, QueueStatus> ClusterView::MeasuredQueues() const {
  std::map<std::string, QueueStatus> standings = QueueStandings();
  if (std::optional<QueueStatus> standing = DefaultStanding(Queues(), allocator_.state())) {
    standings.emplace(kDefaultQueue, *std::move(standing));
  }
  return standings;
}

std::size_t ClusterView::CountSuspectNodes(WallTime now) const {
  std::set<std::string> nodes;
  for (const auto& [key, entry] : jobs_.entries()) {
    const TrainingJobStatus& status = entry.item.object->job.status;
    for (const SuspectNode& suspect : status.suspect_nodes) {
      if (now < suspect.until && !HasEnded(status)) {
        nodes.insert(suspect.node);
      }
    }
  }
  return nodes.size();
}

bool ClusterView::HasSchedulingNews(uint64_t since) const {
  return allocator_.state().news() != since || are_queues_stale_ || !stale_stands_.empty() ||
         !stale_nodes_.empty();
}

Allocator& ClusterView::Scheduling(WallTime now) {
  if (std::exchange(are_queues_stale_, false)) {
    const std::vector<StoredQueue> queues = Queues();
    std::map<std::string, std::string> unserved =
        QueuesServedElsewhere(queues, namespaces_, releases_);
    unserved.merge(UnservedQueues(queues));
    allocator_.SetQueues(UsableQueues(queues), std::move(unserved));
  }
  std::set<std::string> changed = usage_.TakeStrangersChanged();
  changed.merge(foreign_.TakeChanged());
  for (const std::string& name : std::exchange(stale_nodes_, {})) {
    changed.erase(name);
    const kube::Item<kube::Node>* const known = nodes_.Find({"", name});
    if (known == nullptr) {
      allocator_.RemoveNode(name);
      continue;
    }
    SnapshotNode node = SnapshotNodeOf(*known->object);
    NodeUsage strangers = UsedByStrangers(name);
    node.used = std::move(strangers.resources);
    node.pod_count = strangers.pod_count;
    allocator_.SetNode(node);
  }
  for (const std::string& name : changed) {
    allocator_.SetStrangers(name, UsedByStrangers(name));
  }
  for (const JobId& job : stuck_from_.TakeDue(now)) {
    stale_stands_.insert(job);
  }
  // Claims are those of others too: these are few, and set none of their own anew.
  while (!stale_stands_.empty()) {
    TellStands(now);
    stale_stands_.merge(allocator_.TakeAffected());
  }
  return allocator_;
}

const TrainingJobStatus* ClusterView::PlacedStatusOf(const JobId& key,
                                                     const TrainingJob& job) const {
  const auto reserved = reserved_.find(key);
  return PlacedStatus(job, reserved == reserved_.end() ? nullptr : &reserved->second);
}

// The class that counts for the job's gang.
std::string ClusterView::ClassOf(const JobId& key, const TrainingJob& job) const {
  const TrainingJobStatus* const placed = PlacedStatusOf(key, job);
  return placed == nullptr ? PriorityClassOf(job.spec) : PriorityClassOf(job.spec, *placed);
}

PriorityTerms ClusterView::PriorityOf(const JobId& key) const {
  const StoredJob* const stored = FindJob(key);
  if (stored == nullptr) {
    return {};
  }
  const TrainingJobStatus* const placed = PlacedStatusOf(key, stored->job);
  const std::string name = ClassOf(key, stored->job);
  return placed == nullptr ? TermsOfClass(classes_, name)
                           : TermsOfPlaced(classes_, name, placed->origin.priority);
}

std::string ClusterView::QuotaExcessOf(const JobId& key, WallTime now) {
  const ClusterState& state = Scheduling(now).state();
  const GangRecord* const gang = state.Find(GangNameOf(key));
  if (gang == nullptr || gang->state != GangState::kRunning || !gang->queue) {
    return "";
  }
  QueueTree without = state.queues();
  without.Refund({*gang->queue, gang->space}, gang->total);
  const auto excess = without.Check(*gang->queue, gang->total);
  return excess ? excess->text : "";
}

std::optional<RunTimeLimit> ClusterView::RunTimeLimitOf(const JobId& key) const {
  const StoredJob* const stored = FindJob(key);
  if (stored == nullptr || run_time_limits_.empty()) {
    return std::nullopt;
  }
  const TrainingJob& job = stored->job;
  const TrainingJobStatus* const placed = PlacedStatusOf(key, job);
  const auto limit =
      run_time_limits_.find(placed == nullptr ? QueueOf(job.spec) : QueueOf(job.spec, *placed));
  return limit == run_time_limits_.end() ? std::nullopt : std::optional(limit->second);
}

void ClusterView::TellStands(WallTime now) {
  for (const JobId& job : std::exchange(stale_stands_, {})) {
    const auto reserved = reserved_.find(job);
    const TrainingJobStatus* const next = reserved == reserved_.end() ? nullptr : &reserved->second;
    const StoredJob* const stored = FindJob(job);
    const JobUsage* const usage = usage_.Of(job);
    JobStand stand = StandOf(job,
                             {stored,
                              next,
                              usage,
                              PriorityOf(job),
                              UnaskedSince(job, usage, now),
                              RunTimeLimitOf(job),
                              SeesPodGroups()},
                             now);
    stand.request.past_runs = PastRunsOf(job, stored);
    if (stand.wants_place) {
      stand.request.permission = PermissionOf(job, *stored);
    } else {
      permissions_.erase(job);
    }
    stuck_from_.Set(job, EarlierOf(stand.stuck_from, stand.awaited_until));
    allocator_.SetJob(job, stand);
  }
}

void ClusterView::LearnPermission(const Metadata& job,
                                  const PodPermission& permission,
                                  News* news) {
  const JobId key{job.namespace_name, job.name};
  permissions_[key] = {job.uid, job.generation, permission};
  stale_stands_.insert(key);
  news->urgent.insert(key);  // it is the newest round that asked
}

// What was said of another manifest says nothing.
PodPermission ClusterView::PermissionOf(const JobId& key, const StoredJob& stored) {
  const auto known = permissions_.find(key);
  const bool is_of_it = known != permissions_.end() &&
                        known->second.uid == stored.job.metadata.uid &&
                        known->second.generation == stored.job.metadata.generation;
  if (is_of_it) {
    return known->second.permission;
  }
  permissions_.erase(key);
  return {has_permissions_ ? PodsAllowed::kUnasked : PodsAllowed::kAssumed};
}

// A gang that has its places, or is about to, is expected to end when it was expected to before.
PastRuns ClusterView::PastRunsOf(const JobId& key, const StoredJob* stored) const {
  if (!run_times_ || stored == nullptr || HasEnded(stored->job.status)) {
    return {};
  }
  const GangRecord* const known = allocator_.state().Find(GangNameOf(key));
  if (known != nullptr && known->state != GangState::kWaiting) {
    return known->request.past_runs;
  }
  const TrainingJob& job = stored->job;
  const bool is_of_other_manifest = PlacedStatus(job, nullptr) != nullptr && !IsRunOfManifest(job);
  return is_of_other_manifest ? PastRuns() : run_times_->Recall(KindsOf(job));
}

// Those of whom it was not told before are to go from now on.
const std::map<std::string, WallTime>* ClusterView::UnaskedSince(const JobId& job,
                                                                 const JobUsage* usage,
                                                                 WallTime now) {
  if (usage == nullptr || usage->unasked.empty()) {
    unasked_since_.erase(job);
    return nullptr;
  }
  std::map<std::string, WallTime>& known = unasked_since_[job];
  std::map<std::string, WallTime> since;
  for (const auto& [uid, part] : usage->unasked) {
    const auto before = known.find(uid);
    since[uid] = before == known.end() ? now : std::min(before->second, now);
  }
  known = std::move(since);
  return &known;
}

std::optional<EvictionOrder> ClusterView::EvictionOf(const JobId& key, WallTime now) {
  const StoredJob* const stored = FindJob(key);
  if (claimants_.empty() || stored == nullptr || stored->job.status.placement.empty()) {
    return std::nullopt;
  }
  const Allocator& allocator = Scheduling(now);
  const TrainingJob& job = stored->job;
  const GangRecord* const evictor = allocator.EvictorOf(key, job.metadata.uid, job.status.attempt);
  if (evictor == nullptr) {
    return std::nullopt;
  }
  const std::string& queue = evictor->request.queue;
  return EvictionOrder{evictor->request.name,
                       evictor->request.priority,
                       queue.empty() ? kDefaultQueue : queue,
                       allocator.state().Find(GangNameOf(key))->queue != evictor->queue};
}

// Those whose room it claims are to hear of it, or that it is not so any more.
void ClusterView::NoteClaim(const JobId& key,
                            const StoredJob* before,
                            const StoredJob* after,
                            News* news) {
  static const std::optional<RoomClaim> kNone;
  const std::optional<RoomClaim>& was = before == nullptr ? kNone : before->job.status.claim;
  const std::optional<RoomClaim>& is = after == nullptr ? kNone : after->job.status.claim;
  if (was == is) {
    return;
  }
  if (is.has_value()) {
    claimants_.insert(key);
  } else {
    claimants_.erase(key);
  }
  for (const std::optional<RoomClaim>* const claim : {&was, &is}) {
    for (const ClaimedGang& gang :
         claim->has_value() ? (*claim)->gangs : std::vector<ClaimedGang>()) {
      news->urgent.insert(JobOfGang(gang.job));
    }
  }
}

}  // namespace lockstep::control
