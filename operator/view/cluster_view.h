#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/copy_on_write.h"
#include "common/base/time.h"
#include "operator/allocator/allocator.h"
#include "operator/allocator/usage_ledger.h"
#include "operator/api/job/job_id.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/reflector.h"
#include "operator/reconcile/observed.h"
#include "operator/resources/node_usage.h"
#include "operator/scheduler/state/run_time_history.h"
#include "operator/view/capacity/kueue_view.h"
#include "operator/view/capacity/provisioning_view.h"
#include "operator/view/jobs/job_alarms.h"
#include "operator/view/jobs/job_usage.h"
#include "operator/view/pods/foreign_pods.h"
#include "operator/view/pods/pod_doubts.h"
#include "operator/view/pods/pods_by_job.h"
#include "operator/view/reported_devices.h"
#include "operator/view/stored/object_cache.h"
#include "operator/view/stored/priority_classes.h"
#include "operator/view/stored/queue_server.h"
#include "operator/view/stored/stored_job.h"
#include "operator/view/stored/stored_queue.h"

namespace lockstep::control {

// Who has to look again, after something has changed.
struct News {
  std::set<JobId> urgent;   // something ended, vanished or was asked for: at once
  std::set<JobId> calm;     // things go as expected: soon, together with what follows
  bool frees_room = false;  // jobs that wait may fit now
};

// All that is known of the cluster: from the watches, and from the replies to our own calls, which
// are often ahead of them. Everything the operator decides on is read from here.
// Thread: one, the controller's.
class ClusterView {
 public:
  // `namespaces`: whose jobs are served; empty: all. Pods of other jobs are strangers.
  // `topology_levels`: labels of nodes, from wide to narrow. `learns_run_times`: rounds hear how
  // long jobs ran that have succeeded and are there still.
  explicit ClusterView(std::set<std::string> namespaces = {},
                       const std::vector<std::string>& topology_levels = {},
                       bool learns_run_times = false);

  ClusterView(const ClusterView&) = delete;
  ClusterView& operator=(const ClusterView&) = delete;

  // What a watch has told. Adds to `news`.
  void Apply(const kube::ObjectUpdate<StoredJob>& jobs, News* news);
  void Apply(const kube::ObjectUpdate<kube::Pod>& pods,
             News* news);  // with the label lockstep.dev/job
  void Apply(const kube::ObjectUpdate<PodUse>& foreign_pods, News* news);  // without it
  void Apply(const kube::ObjectUpdate<kube::Node>& nodes, News* news);
  void Apply(const kube::ObjectUpdate<kube::Service>& services, News* news);

  void Apply(const kube::ObjectUpdate<StoredQueue>& queues, News* news);
  void Apply(const kube::ObjectUpdate<PriorityClass>& classes, News* news);
  void Apply(const kube::ObjectUpdate<StoredWorkload>& workloads, News* news);
  void Apply(const kube::ObjectUpdate<StoredFlavor>& flavors, News* news);
  void Apply(const kube::ObjectUpdate<StoredProvisioningRequest>& requests, News* news);
  void Apply(const kube::ObjectUpdate<StoredPodTemplate>& templates, News* news);
  void Apply(const kube::ObjectUpdate<StoredPlaceholder>& placeholders, News* news);
  void Apply(const kube::ObjectUpdate<StoredPodGroup>& groups, News* news);

  // The namespace whose jobs are served; empty when there is more than one.
  std::string ServedNamespace() const {
    return namespaces_.size() == 1 ? *namespaces_.begin() : std::string();
  }

  // How often a watch has delivered its whole selection. A reply to a call that was begun before
  // the last time may tell of an object that has gone since, which no watch will say any more:
  // whoever learns from it has to doubt it.
  int64_t list_count() const {
    return jobs_.list_count() + pods_.list_count() + services_.list_count();
  }

  // What replies to our own calls have told.
  void LearnJob(const kube::Item<kube::RawObject>& item, News* news);
  void LearnPod(const kube::Item<kube::Pod>& item, News* news);
  void LearnService(const kube::Item<kube::Service>& item, News* news);
  void LearnJobIsGone(const JobId& key, const std::string& uid, News* news);
  void LearnPodIsGone(const kube::ObjectKey& key, const std::string& uid, News* news);
  void LearnServiceIsGone(const kube::ObjectKey& key, const std::string& uid, News* news);

  // Jobs that only replies have shown and that the watch's list lacks: they may have gone unseen.
  // Ask the server before deciding on any.
  std::set<JobId> TakeDoubtfulJobs() { return std::exchange(doubtful_jobs_, {}); }

  // Whether the server has a pod of that name is not known: it is asked before the next decision.
  void DoubtPod(const JobId& job, const std::string& name) { doubts_.Begin(job, name); }

  // Jobs with pods in doubt.
  std::set<JobId> JobsInDoubt() const { return doubts_.Jobs(); }

  // The server, asked after the job's status was read, has no pod of that name, or only this one:
  // what the status or we ourselves have seen of that name besides is gone. `known_uid`: of the pod
  // that was known when the server was asked, empty if none; of one that has come since, nothing
  // was learnt.
  void LearnPodIsMissing(const JobId& job,
                         const std::string& name,
                         const std::string& known_uid,
                         News* news);
  void LearnPodOfName(const JobId& job, const kube::Item<kube::Pod>& item, News* news);

  // The job's status was written by us; the object has `version` now. Nobody else changed it in
  // between: the server has checked that.
  void NoteStatus(const JobId& key,
                  const TrainingJobStatus& status,
                  const std::string& version,
                  News* news);

  // The job is about to have this status: what it would hold is counted as held until
  // EndReservation. There, a job that was waited for may not have got its place after all.
  void Reserve(const JobId& key, TrainingJobStatus status);
  void EndReservation(const JobId& key, News* news);

  void EndReservations(News* news) {
    while (!reserved_.empty()) {
      EndReservation(JobId(reserved_.begin()->first), news);
    }
  }

  // Null when there is no such job.
  const StoredJob* FindJob(const JobId& key) const {
    const auto* const item = jobs_.Find({key.namespace_name, key.name});
    return item == nullptr ? nullptr : item->object.get();
  }

  std::string JobVersion(const JobId& key) const {
    const auto* const item = jobs_.Find({key.namespace_name, key.name});
    return item == nullptr ? std::string() : item->resource_version;
  }

  // All jobs, oldest first, equal ages by name.
  std::vector<JobId> Jobs() const;

  // Those of `keys`, in the same order; jobs that are gone come first.
  std::vector<JobId> ByAge(const std::set<JobId>& keys) const;

  // Of jobs that have no place yet and want one.
  int64_t waiting_count() const { return waiting_count_; }

  // Pods that carry the job's label, by name.
  std::vector<const kube::Item<kube::Pod>*> PodsOf(const JobId& key) const {
    return PodsNamed(key, pods_by_job_.NamesOf(key));
  }

  // Those of them that lack labels by which watches and services find them (LackingLabels).
  std::vector<const kube::Item<kube::Pod>*> MislabelledPodsOf(const JobId& key) const {
    return PodsNamed(key, pods_by_job_.MislabelledOf(key));
  }

  std::size_t PodCountOf(const JobId& key) const { return pods_by_job_.NamesOf(key).size(); }

  const kube::Item<kube::Pod>* FindPod(const kube::ObjectKey& key) const { return pods_.Find(key); }

  const kube::Item<kube::Service>* FindService(const kube::ObjectKey& key) const {
    return services_.Find(key);
  }

  // All nodes, by name. Shared: there may be thousands, and each job is decided with all of them.
  const CopyOnWrite<std::vector<kube::Node>>& Nodes();

  // Pods of the job whose fate is not certain: its status has seen them or we have created them,
  // and the watch shows neither them nor their end. Ask the server before deciding.
  std::vector<std::string> UncertainPods(const JobId& key) const;

  // Pods that were replaced because they have ended, and whose kubelets have not told how in time:
  // somebody may have removed them, unseen. Ask the server before that is taken for a loss.
  std::vector<std::string> UntoldPods(const JobId& key, WallTime now) const;

  // What everybody but this job holds: pods of others, places that other jobs were promised; and
  // what is kept for some, as far as rounds have heard.
  UsedElsewhere UsedBesides(const JobId& key);

  // From wide to narrow, without kHostLevel.
  const std::vector<std::string>& topology_levels() const {
    return allocator_.state().nodes().domains().levels();
  }

  // As ClusterState::SetRecorder, of the state that rounds decide by.
  void RecordScheduling(StateRecorder* recorder) { allocator_.SetRecorder(recorder); }

  // Who holds what, as far as rounds have heard.
  const Allocator& allocator() const { return allocator_; }

  // The same, up to date with what was heard.
  Allocator& Scheduling(WallTime now);

  // All TrainingQueues, by name.
  std::vector<StoredQueue> Queues() const;

  // Whose turn it is in the queue of that name; of one that is nobody's object by age.
  QueueOrder QueueOrderOf(const std::string& queue) const;

  bool has_jobs() const { return !jobs_.entries().empty(); }

  bool has_queues() const { return !queues_.entries().empty(); }

  // How they stand, as far as rounds have heard.
  // Without queues that another release serves.
  std::map<std::string, QueueStatus> QueueStandings() const;

  // The same for dashboards: with the queue `default`, which may be nobody's object.
  std::map<std::string, QueueStatus> MeasuredQueues() const;

  // How many nodes some job that has not ended avoids at `now`, as its pods could not start there.
  std::size_t CountSuspectNodes(WallTime now) const;

  // How long the queue that the job's gang counts in lets it run; null: for ever.
  std::optional<RunTimeLimit> RunTimeLimitOf(const JobId& key) const;

  // What its PriorityClass says of the job's gang; of one with places, as it got them.
  PriorityTerms PriorityOf(const JobId& key) const;

  // Why the queue of the gang, which has its places, may not hold what its pods ask for; empty: it
  // may. It had its places for less, where the cluster has made its pods larger.
  std::string QuotaExcessOf(const JobId& key, WallTime now);

  // When pods that were to go are stuck, or placeholder pods count for no nodes on their way any
  // more, the first of them; empty: none are to.
  std::optional<WallTime> StuckFrom() const { return stuck_from_.First(); }

  // Whether that may have changed since the rounds' state had so many news.
  bool HasSchedulingNews(uint64_t since) const;

  // What is seen of Kueue, for the job.
  KueueSight KueueOf(const JobId& key) const;

  // What is seen of the objects by which the job asks autoscalers for room.
  ProvisioningSight ProvisioningOf(const JobId& key) const;

  // In which version the API server serves PodGroups, as far as is known now. Those that were
  // listed in another version are forgotten.
  void NotePodGroups(kube::PodGroupsFound found, News* news);

  // What is seen of the job's PodGroups; whether the operator was told to is the caller's to say.
  NativeSight NativeOf(const JobId& key) const;

  // For whom the job's gang is to go, as a stored claim says; null: it stays.
  std::optional<EvictionOrder> EvictionOf(const JobId& key, WallTime now);

  // As of Allocator.
  std::map<JobId, std::vector<JobId>> TakePermissionNeeds() {
    return allocator_.TakePermissionNeeds();
  }

  // The job is to be looked at anew there, whether or not anything has changed but the time.
  void Reconsider(const JobId& key) { NoteUsageChange(key); }

  // By node, of those that the job is on: GPUs that pods of other jobs have reported.
  std::map<std::string, std::set<std::string>> DevicesElsewhere(const JobId& key) const;

  // Which other releases of the operator there are, the oldest first: they may serve queues.
  void NoteReleases(std::vector<OtherRelease> releases, News* news);

  // From now on nobody goes for a job before LearnPermission has told that its pods may be created.
  void RequirePermissions() { has_permissions_ = true; }

  // Whether the API server would create the job's pods, as long as its manifest stays as it is.
  // Adds to `news`.
  void LearnPermission(const Metadata& job, const PodPermission& permission, News* news);

  // For metrics.
  struct Counts {
    std::size_t jobs = 0;
    std::size_t pods = 0;
    std::size_t foreign_pods = 0;
    std::size_t nodes = 0;
    std::size_t services = 0;
    // Of the jobs and of the queues, those that cannot be read.
    std::size_t unreadable_jobs = 0;
    std::size_t unreadable_queues = 0;
  };

  Counts counts() const;

 private:
  using JobChange = ObjectCache<StoredJob>::Change;
  using PodChange = ObjectCache<kube::Pod>::Change;

  bool IsServed(const kube::ObjectKey& key) const {
    return namespaces_.empty() || namespaces_.count(key.namespace_name) > 0;
  }

  void NoteUsageChange(const JobId& job) {
    usage_.NoteChange(job);
    stale_stands_.insert(job);
  }

  // An answer of the API server, and what it was asked about.
  struct KnownPermission {
    std::string uid;
    int64_t generation = 0;
    PodPermission permission;
  };

  PodPermission PermissionOf(const JobId& key, const StoredJob& stored);
  PastRuns PastRunsOf(const JobId& key, const StoredJob* stored) const;
  const TrainingJobStatus* PlacedStatusOf(const JobId& key, const TrainingJob& job) const;
  std::string ClassOf(const JobId& key, const TrainingJob& job) const;
  void NoteRunTimeLimits(News* news);
  template <typename T>
  void ApplyToKueue(const kube::ObjectUpdate<T>& update, News* news);
  template <typename T>
  void ApplyToProvisioning(const kube::ObjectUpdate<T>& update, Provisioning by, News* news);
  void LookAtNativeJobs(News* news);

  bool SeesPodGroups() const { return pod_groups_.is_listed() && pod_groups_found_.version; }

  void TellStands(WallTime now);
  const std::map<std::string, WallTime>* UnaskedSince(const JobId& job,
                                                      const JobUsage* usage,
                                                      WallTime now);
  void NoteClaim(const JobId& key, const StoredJob* before, const StoredJob* after, News* news);
  NodeUsage UsedByStrangers(const std::string& node);
  void NoteJobChange(const JobChange& change, News* news);
  void NotePodChange(const PodChange& change, News* news);
  void NoteNodeChange(const ObjectCache<kube::Node>::Change& change, News* news);
  bool AllRun(const JobId& key) const;
  std::vector<const kube::Item<kube::Pod>*> PodsNamed(const JobId& key,
                                                      const std::set<std::string>& names) const;
  void NoteOthersGone(const JobId& job,
                      const std::string& name,
                      const std::string& uid,
                      News* news);
  void NoteServiceChange(const ObjectCache<kube::Service>::Change& change, News* news);
  JobUsage CountUsage(const JobId& key) const;

  std::set<std::string> namespaces_;
  ObjectCache<StoredJob> jobs_;
  ObjectCache<kube::Pod> pods_;
  ObjectCache<kube::Node> nodes_;
  std::optional<CopyOnWrite<std::vector<kube::Node>>> node_list_;  // of nodes_; null: out of date
  ObjectCache<kube::Service> services_;
  ForeignPods foreign_;

  std::set<std::pair<WallTime, JobId>> by_age_;
  int64_t waiting_count_ = 0;
  ReportedDevices devices_;
  PodsByJob pods_by_job_;
  PodDoubts doubts_;
  std::set<JobId> doubtful_jobs_;

  std::map<JobId, TrainingJobStatus> reserved_;
  UsageLedger usage_{[this](const JobId& key) { return CountUsage(key); }};

  Allocator allocator_;
  std::optional<RunTimeHistory> run_times_;  // null: nothing is learnt
  std::set<JobId> stale_stands_;             // that it is to be told of
  JobAlarms stuck_from_;                     // when it is to be told of others
  // When it was first told of pods that are to go and that nobody has asked to, by uid.
  std::map<JobId, std::map<std::string, WallTime>> unasked_since_;  // no job has none
  bool has_permissions_ = false;                                    // else they are assumed
  std::map<JobId, KnownPermission> permissions_;                    // of jobs that wait
  std::set<std::string> stale_nodes_;                               // those too
  ObjectCache<StoredQueue> queues_;
  std::vector<OtherRelease> releases_;
  bool are_queues_stale_ = false;
  std::map<std::string, RunTimeLimit> run_time_limits_;  // of queues_, by queue
  std::set<JobId> claimants_;                            // whose stored status claims room
  ObjectCache<PriorityClass> class_cache_;
  std::map<std::string, PriorityClass> classes_;  // of it
  KueueView kueue_;
  ProvisioningView provisioning_;
  ObjectsByJob<StoredPodGroup> pod_groups_;  // in the version that pod_groups_found_ names
  kube::PodGroupsFound pod_groups_found_;
};

}  // namespace lockstep::control
