#include "operator/view/cluster_view.h"

#include <algorithm>
#include <memory>
#include <variant>

#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/verdict_patience.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/view/jobs/run_kinds.h"
#include "operator/view/pods/own_pods.h"

namespace lockstep::control {
namespace {

JobId KeyOf(const kube::ObjectKey& key) {
  return {key.namespace_name, key.name};
}

kube::ObjectKey ObjectKeyOf(const JobId& key) {
  return {key.namespace_name, key.name};
}

}  // namespace

ClusterView::ClusterView(std::set<std::string> namespaces,
                         const std::vector<std::string>& topology_levels,
                         bool learns_run_times)
    : namespaces_(std::move(namespaces)), allocator_({topology_levels, /*is_one_machine=*/false}) {
  if (learns_run_times) {
    run_times_.emplace(RunTimeHistory::Options());
  }
}

void ClusterView::Apply(const kube::ObjectUpdate<StoredJob>& jobs, News* news) {
  std::vector<kube::ObjectKey> doubtful;
  const auto note = [&](const JobChange& change) { NoteJobChange(change, news); };
  if (const auto* replaced = std::get_if<kube::Replaced<StoredJob>>(&jobs)) {
    kube::Replaced<StoredJob> served = *replaced;
    std::erase_if(served.items, [&](const auto& item) { return !IsServed(item.key); });
    jobs_.Apply(std::move(served), &doubtful, note);
  } else if (const auto* upserted = std::get_if<kube::Upserted<StoredJob>>(&jobs);
             upserted == nullptr || IsServed(upserted->item.key)) {
    jobs_.Apply(jobs, &doubtful, note);
  }
  for (const kube::ObjectKey& key : doubtful) {
    doubtful_jobs_.insert(KeyOf(key));
    news->urgent.insert(KeyOf(key));
  }
}

void ClusterView::Apply(const kube::ObjectUpdate<kube::Pod>& pods, News* news) {
  std::vector<kube::ObjectKey> doubtful;
  const auto* const deleted = std::get_if<kube::Deleted<kube::Pod>>(&pods);
  const auto* const known = deleted == nullptr ? nullptr : pods_.Find(deleted->item.key);
  if (known != nullptr &&
      MayBeDeselected(
          FindJob(JobOf(*known->object, known->key.namespace_name)), known, deleted->item)) {
    doubtful.push_back(deleted->item.key);
  } else {
    pods_.Apply(pods, &doubtful, [&](const PodChange& change) { NotePodChange(change, news); });
  }
  for (const kube::ObjectKey& key : doubtful) {
    const JobId job = JobOf(*pods_.Find(key)->object, key.namespace_name);
    doubts_.Begin(job, key.name);
    news->urgent.insert(job);
  }
}

void ClusterView::Apply(const kube::ObjectUpdate<PodUse>& foreign_pods, News* news) {
  news->frees_room = foreign_.Apply(foreign_pods) || news->frees_room;
}

void ClusterView::Apply(const kube::ObjectUpdate<kube::Node>& nodes, News* news) {
  std::vector<kube::ObjectKey> doubtful;  // none: we never write a node
  nodes_.Apply(nodes, &doubtful, [&](const auto& change) { NoteNodeChange(change, news); });
}

void ClusterView::Apply(const kube::ObjectUpdate<kube::Service>& services, News* news) {
  // A service that is there all the same is only applied once more.
  std::vector<kube::ObjectKey> doubtful;
  services_.Apply(
      services, &doubtful, [&](const auto& change) { NoteServiceChange(change, news); });
}

void ClusterView::LearnJob(const kube::Item<kube::RawObject>& item, News* news) {
  if (!IsServed(item.key) ||
      !jobs_.IsNews(item.key, item.uid, item.resource_version, Source::kReply)) {
    return;
  }
  if (auto job = DecodeStoredJob(item.object->json); job.ok()) {
    NoteJobChange(jobs_.Put(*std::move(job), Source::kReply), news);
  }
}

void ClusterView::LearnPod(const kube::Item<kube::Pod>& item, News* news) {
  const JobId job = JobOf(*item.object, item.key.namespace_name);
  doubts_.End(job, item.key.name);
  if (IsFollowed(FindJob(job), *item.object)) {
    NotePodChange(pods_.Put(item, Source::kReply), news);
  }
}

void ClusterView::LearnService(const kube::Item<kube::Service>& item, News* news) {
  const auto change = services_.Put(item, Source::kReply);
  if (change.before != change.after) {
    news->calm.insert(KeyOf(item.key));  // whoever asked the server knows
  }
}

void ClusterView::LearnJobIsGone(const JobId& key, const std::string& uid, News* news) {
  NoteJobChange(jobs_.Remove(ObjectKeyOf(key), uid), news);
}

void ClusterView::LearnPodIsGone(const kube::ObjectKey& key, const std::string& uid, News* news) {
  NotePodChange(pods_.Remove(key, uid), news);
}

void ClusterView::LearnServiceIsGone(const kube::ObjectKey& key,
                                     const std::string& uid,
                                     News* news) {
  NoteServiceChange(services_.Remove(key, uid), news);
}

void ClusterView::LearnPodIsMissing(const JobId& job,
                                    const std::string& name,
                                    const std::string& known_uid,
                                    News* news) {
  const kube::ObjectKey key{job.namespace_name, name};
  if (const auto* const known = pods_.Find(key); known != nullptr && known->uid != known_uid) {
    return DoubtPod(job, name);  // it came after the server was asked
  }
  LearnPodIsGone(key, known_uid, news);
  doubts_.End(job, name);
  NoteOthersGone(job, name, "", news);
}

void ClusterView::LearnPodOfName(const JobId& job, const kube::Item<kube::Pod>& item, News* news) {
  doubts_.End(job, item.key.name);  // the job asked, whoever's pod it is
  const auto* const known = pods_.Find(item.key);
  if (known != nullptr && known->uid != item.uid) {
    if (IsOlderVersion(item.resource_version, known->resource_version)) {
      return;  // its successor has shown since
    }
    LearnPodIsGone(item.key, std::string(known->uid), news);
  } else if (!IsFollowed(FindJob(job), *item.object)) {
    LearnPodIsGone(item.key, item.uid, news);  // it is a stranger's now
  }
  LearnPod(item, news);
  NoteOthersGone(job, item.key.name, item.uid, news);
}

void ClusterView::NoteOthersGone(const JobId& job,
                                 const std::string& name,
                                 const std::string& uid,
                                 News* news) {
  const StoredJob* const stored = FindJob(job);
  if (stored == nullptr) {
    return;
  }
  for (const PodPlacement& placement : stored->job.status.placement) {
    if (PlacedPodName(job.name, stored->job.status.attempt, placement) == name &&
        !placement.pod_uid.empty() && placement.pod_uid != uid) {
      LearnPodIsGone({job.namespace_name, name}, placement.pod_uid, news);
    }
  }
}

void ClusterView::NoteStatus(const JobId& key,
                             const TrainingJobStatus& status,
                             const std::string& version,
                             News* news) {
  const kube::Item<StoredJob>* const known = jobs_.Find(ObjectKeyOf(key));
  if (known == nullptr) {
    return;
  }
  auto stored = std::make_shared<StoredJob>(*known->object);
  stored->job.status = status;
  stored->is_status_foreign = false;
  if (!WantsPlace(*known->object) && WantsPlace(*stored)) {
    news->urgent.insert(key);  // it has given its places up: when it may have others it says next
  }
  kube::Item<StoredJob> item{known->key, known->uid, version, std::move(stored)};
  News own;
  NoteJobChange(jobs_.Put(std::move(item), Source::kReply), &own);
  own.urgent.erase(key);  // the writer knows
  news->urgent.merge(own.urgent);
  news->frees_room = news->frees_room || own.frees_room;
}

void ClusterView::Reserve(const JobId& key, TrainingJobStatus status) {
  reserved_[key] = std::move(status);
  NoteUsageChange(key);
}

void ClusterView::EndReservation(const JobId& key, News* news) {
  const auto reserved = reserved_.extract(key);
  if (reserved.empty()) {
    return;
  }
  NoteUsageChange(key);
  const StoredJob* const stored = FindJob(key);
  news->frees_room =
      news->frees_room || stored == nullptr || stored->job.status != reserved.mapped();
}

std::vector<JobId> ClusterView::Jobs() const {
  std::vector<JobId> keys;
  for (const auto& [created, key] : by_age_) {
    keys.push_back(key);
  }
  return keys;
}

std::vector<JobId> ClusterView::ByAge(const std::set<JobId>& keys) const {
  std::vector<std::pair<WallTime, JobId>> ages;
  for (const JobId& key : keys) {
    const StoredJob* const stored = FindJob(key);
    ages.emplace_back(stored == nullptr ? WallTime{} : stored->created, key);
  }
  std::sort(ages.begin(), ages.end());
  std::vector<JobId> sorted;
  for (auto& [created, key] : ages) {
    sorted.push_back(std::move(key));
  }
  return sorted;
}

std::vector<const kube::Item<kube::Pod>*> ClusterView::PodsNamed(
    const JobId& key, const std::set<std::string>& names) const {
  std::vector<const kube::Item<kube::Pod>*> pods;
  for (const std::string& name : names) {
    pods.push_back(pods_.Find({key.namespace_name, name}));
  }
  return pods;
}

std::vector<std::string> ClusterView::UncertainPods(const JobId& key) const {
  std::set<std::string> names = doubts_.Of(key);
  const StoredJob* const stored = FindJob(key);
  if (stored != nullptr && !HasEnded(stored->job.status)) {
    for (const PodPlacement& placement : stored->job.status.placement) {
      const std::string name = PlacedPodName(key.name, stored->job.status.attempt, placement);
      // One of that name may be its forerunner, of whose end the watch is yet to tell.
      const kube::Item<kube::Pod>* const known = pods_.Find({key.namespace_name, name});
      const bool is_seen = known != nullptr && known->uid == placement.pod_uid;
      if (!placement.pod_uid.empty() && !placement.is_completed && !is_seen &&
          !pods_.IsKnownGone(placement.pod_uid)) {
        names.insert(name);
      }
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> ClusterView::UntoldPods(const JobId& key, WallTime now) const {
  std::vector<std::string> names;
  const StoredJob* const stored = FindJob(key);
  if (stored == nullptr || HasEnded(stored->job.status)) {
    return names;
  }
  for (const PodPlacement& placement : stored->job.status.placement) {
    if (!placement.awaits_verdict || placement.incarnation == Incarnation() ||
        now < placement.since + kVerdictPatience) {
      continue;
    }
    PodPlacement before = placement;
    before.incarnation = Incarnation(placement.incarnation.value() - 1);
    const std::string name = PlacedPodName(key.name, stored->job.status.attempt, before);
    const kube::Item<kube::Pod>* const pod = pods_.Find({key.namespace_name, name});
    if (pod != nullptr && !HasEnded(*pod->object)) {
      names.push_back(name);
    }
  }
  return names;
}

const CopyOnWrite<std::vector<kube::Node>>& ClusterView::Nodes() {
  if (!node_list_.has_value()) {
    std::vector<kube::Node> nodes;
    for (const auto& [key, entry] : nodes_.entries()) {
      nodes.push_back(*entry.item.object);
    }
    node_list_ = std::move(nodes);
  }
  return *node_list_;
}

UsedElsewhere ClusterView::UsedBesides(const JobId& key) {
  const UsageByNode* const own = usage_.OwnOf(key);
  return {
      usage_.Sum(), foreign_.room(), own == nullptr ? UsageByNode() : *own, allocator_.RoomKept()};
}

std::map<std::string, std::set<std::string>> ClusterView::DevicesElsewhere(const JobId& key) const {
  const StoredJob* const stored = FindJob(key);
  return stored == nullptr ? std::map<std::string, std::set<std::string>>()
                           : devices_.OfOthers(key, stored->job.status);
}

void ClusterView::NoteJobChange(const JobChange& change, News* news) {
  const StoredJob* const before = change.before.get();
  const StoredJob* const after = change.after.get();
  const JobId key = KeyOf(change.key);
  if (before != nullptr) {
    by_age_.erase({before->created, key});
    waiting_count_ -= WantsPlace(*before) ? 1 : 0;
    devices_.Remove(key, before->job.status);
  }
  if (after != nullptr) {
    by_age_.emplace(after->created, key);
    waiting_count_ += WantsPlace(*after) ? 1 : 0;
    devices_.Add(key, after->job.status);
  }
  if (before == after || (before != nullptr && after != nullptr && *before == *after)) {
    return;
  }
  if (run_times_ && after != nullptr) {
    if (const std::optional<EndedRun> run = RunOf(*after)) {
      run_times_->Learn(KindsOf(after->job), *run);
    }
  }
  NoteUsageChange(key);
  NoteClaim(key, before, after, news);
  news->urgent.insert(key);
  news->frees_room = news->frees_room || FreesRoom(before, after);
}

void ClusterView::NotePodChange(const PodChange& change, News* news) {
  const kube::Pod* const before = change.before.get();
  const kube::Pod* const after = change.after.get();
  if (before == after) {
    return;
  }
  if (before != nullptr) {
    const JobId job = JobOf(*before, change.key.namespace_name);
    if (pods_by_job_.Remove(job, change.key.name, *before) && after == nullptr) {
      doubts_.EndAll(job);
    }
  }
  if (after != nullptr) {
    pods_by_job_.Add(JobOf(*after, change.key.namespace_name), change.key.name, *after);
  }
  if (before != nullptr && after != nullptr && *before == *after) {
    return;
  }
  const JobId job = JobOf(after != nullptr ? *after : *before, change.key.namespace_name);
  const bool has_ended = after == nullptr || HasEnded(*after);
  const bool had_ended = before != nullptr && HasEnded(*before);
  const bool is_leaving = after != nullptr && after->is_deleting;
  const bool was_leaving = before != nullptr && before->is_deleting;
  const bool runs = after != nullptr && IsRunning(*after);
  const bool ran = before != nullptr && IsRunning(*before);
  NoteUsageChange(job);
  // A pod that has ended holds nothing: that it goes is no news.
  const bool leaves = is_leaving != was_leaving && !had_ended;
  const bool completes = runs && !ran && AllRun(job);
  if (has_ended != had_ended || leaves || completes) {
    news->urgent.insert(job);
  } else {
    news->calm.insert(job);
  }
  news->frees_room = news->frees_room || (has_ended && !had_ended);
}

void ClusterView::NoteNodeChange(const ObjectCache<kube::Node>::Change& change, News* news) {
  if (change.before == change.after ||
      (change.before != nullptr && change.after != nullptr && *change.before == *change.after)) {
    return;
  }
  node_list_.reset();
  stale_nodes_.insert(change.key.name);
  news->frees_room = true;  // labels, taints or amounts: whoever waits may look again
  const bool was_ready = change.before != nullptr && change.before->is_ready;
  const bool is_ready = change.after != nullptr && change.after->is_ready;
  const bool is_lost_or_back = was_ready != is_ready || change.after == nullptr;
  for (const JobId& job : usage_.JobsOn(change.key.name)) {
    const StoredJob* const stored = FindJob(job);
    // One that waits for pods of an earlier attempt goes on when a taint gives them up.
    if (is_lost_or_back || (stored != nullptr && WantsPlace(*stored))) {
      news->urgent.insert(job);
    }
  }
}

// Whether its pods are as many as were placed, and all of them run.
bool ClusterView::AllRun(const JobId& key) const {
  const StoredJob* const stored = FindJob(key);
  return stored != nullptr &&
         pods_by_job_.RunningCountOf(key) >= stored->job.status.placement.size();
}

void ClusterView::NoteServiceChange(const ObjectCache<kube::Service>::Change& change, News* news) {
  if (change.before != change.after) {
    news->urgent.insert(KeyOf(change.key));  // a job's service has the job's name
  }
}

ClusterView::Counts ClusterView::counts() const {
  const auto count_unreadable = [](const auto& cache) {
    return static_cast<std::size_t>(
        std::count_if(cache.entries().begin(), cache.entries().end(), [](const auto& entry) {
          return !entry.second.item.object->problem.empty();
        }));
  };
  return {jobs_.entries().size(),
          pods_.entries().size(),
          foreign_.size(),
          nodes_.entries().size(),
          services_.entries().size(),
          count_unreadable(jobs_),
          count_unreadable(queues_)};
}

JobUsage ClusterView::CountUsage(const JobId& key) const {
  const kube::Item<StoredJob>* const item = jobs_.Find(ObjectKeyOf(key));
  const auto reserved = reserved_.find(key);
  return UsageOf(item,
                 reserved == reserved_.end() ? nullptr : &reserved->second,
                 PodsOf(key),
                 IsServed(ObjectKeyOf(key)));
}

}  // namespace lockstep::control
