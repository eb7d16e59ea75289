#include "operator/controller/api_cluster.h"

#include <memory>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "operator/capacity/kueue_workload.h"
#include "operator/controller/look/look.h"
#include "operator/controller/look/permission_look.h"
#include "operator/controller/write/effect_batch.h"
#include "operator/controller/write/status_write.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/admission_change.h"
#include "operator/reconcile/pods/job_objects.h"

namespace lockstep::control {
namespace {

// Stand for them in the errands: no job has such a name.
const JobId kAllJobs;
const JobId kAllQueues{"", "queues"};

// The same for the one that asks whether the job may have its pods.
JobId PermissionErrandOf(const JobId& key) {
  return {"", GangNameOf(key)};
}

// Choice: a round searches for as many.
constexpr std::size_t kPermissionsAskedMax = 8;

std::optional<WallTime> EstimatedStartIn(const PlanResult& answer) {
  const auto* const refusal = std::get_if<Unschedulable>(&answer);
  return refusal == nullptr ? std::nullopt : refusal->estimated_start;
}

void Spread(ReportNews weight, const JobId& job, News* news) {
  if (weight != ReportNews::kNone) {
    (weight == ReportNews::kUrgent ? news->urgent : news->calm).insert(job);
  }
}

}  // namespace

ApiCluster::ApiCluster(PodSettings settings, ApiClusterParts parts)
    : settings_(std::move(settings)),
      parts_(parts),
      levels_(settings_.pod_security, parts_.logger),
      rounds_(parts.view, {parts.clock, parts.publisher}),
      queue_reporter_(parts.view, parts.half_life),
      errands_(parts.api, parts.calls_of_job_max) {
  parts_.view->RequirePermissions();
}

void ApiCluster::SetTime(TimePoint now, WallTime wall_now) {
  now_ = now;
  notes_.wall_now = wall_now;
}

void ApiCluster::Lead(const std::string& master_key) {
  master_key_ = master_key;
  must_list_jobs_ = true;
  // Of an earlier time as leader: what was true then may not be now.
  notes_ = {notes_.wall_now, {}, {}, {}, {}, {}, {}, {}};
  reports_.Clear();
  rounds_.Reset(notes_.wall_now);
  queue_reporter_.Lead(now_, notes_.wall_now);
}

void ApiCluster::Accept(PodReport report, News* news) {
  const kube::Item<kube::Pod>* const pod = parts_.view->FindPod(report.pod);
  if (pod == nullptr) {
    return;
  }
  const auto identity = IdentityOf(*pod->object);
  if (!identity.has_value() || identity->job_uid != report.document.job_uid) {
    return;
  }
  const JobId job{report.pod.namespace_name, identity->job};
  Spread(reports_.Accept(job, std::move(report)), job, news);
}

void ApiCluster::NoteClosed(const kube::ObjectKey& pod, TimePoint when, News* news) {
  const kube::Item<kube::Pod>* const known = parts_.view->FindPod(pod);
  const auto identity = known == nullptr ? std::nullopt : IdentityOf(*known->object);
  if (!identity.has_value()) {
    return;
  }
  const JobId job{pod.namespace_name, identity->job};
  Spread(reports_.NoteClosed(job, pod.name, when), job, news);
}

void ApiCluster::NoteRefused(const kube::ObjectKey& pod, TokenVerdict why, News* news) {
  const kube::Item<kube::Pod>* const known = parts_.view->FindPod(pod);
  const auto identity = known == nullptr ? std::nullopt : IdentityOf(*known->object);
  if (!identity.has_value()) {
    return;
  }
  const JobId job{pod.namespace_name, identity->job};
  const ReportNews weight = reports_.NoteRefused(job, pod.name, why);
  if (weight != ReportNews::kNone) {
    parts_.logger->Warn(why == TokenVerdict::kExpired ? "a pod's clock differs from the operator's"
                                                      : "a pod does not accept the operator's key",
                        {{"namespace", pod.namespace_name}, {"pod", pod.name}});
  }
  Spread(weight, job, news);
}

std::string ApiCluster::JobSecretOf(const std::string& job_uid) const {
  return HmacSha256Hex(master_key_, job_uid);
}

News ApiCluster::TakeNews() {
  rounds_.Settle(notes_.wall_now, &notes_.news);
  AskPermissions();
  return std::exchange(notes_.news, News{});
}

void ApiCluster::Plan() {
  if (!must_list_jobs_) {  // else every job has a turn when they are listed
    rounds_.Plan(notes_.wall_now, &notes_.news);
  }
}

// Rounds name again whoever is not asked about now.
void ApiCluster::AskPermissions() {
  for (auto& [key, victims] : parts_.view->TakePermissionNeeds()) {
    const StoredJob* const stored = parts_.view->FindJob(key);
    const JobId errand = PermissionErrandOf(key);
    if (stored == nullptr || permissions_asked_.size() >= kPermissionsAskedMax ||
        !permissions_asked_.insert(errand).second) {
      continue;
    }
    errands_.Begin(errand,
                   std::make_unique<PermissionLook>(
                       PermissionLookParts{parts_.view, &notes_, &settings_, &levels_, now_},
                       stored->job,
                       std::move(victims)));
  }
}

void ApiCluster::StartLook(const JobId& key) {
  notes_.unsettled.merge(parts_.view->TakeDoubtfulJobs());
  if (!must_list_jobs_) {
    BeginLook(key);
    return;
  }
  // Whatever is planned takes the room that no job was promised. So no job is planned while what
  // another leader has written may be unknown here: the same room would be promised twice.
  held_looks_.push_back(key);
  if (held_looks_.size() == 1) {
    errands_.Begin(kAllJobs, std::make_unique<JobsLook>(parts_.view, &notes_));
  }
}

void ApiCluster::BeginLook(const JobId& key) {
  errands_.Begin(key, std::make_unique<Look>(key, parts_.view, &notes_));
}

void ApiCluster::EndListing(const Status& listed, std::vector<ClusterAnswer>* answers) {
  must_list_jobs_ = !listed.ok();
  for (const JobId& key : std::exchange(held_looks_, {})) {
    if (listed.ok()) {
      BeginLook(key);
    } else {
      answers->push_back({key,
                          {Error(ErrorCode::kUnavailable,
                                 "the jobs could not be listed: " + listed.error().ToString())}});
    }
  }
}

void ApiCluster::Ask(const JobId& key) {
  asked_ = key;
  const StoredJob* const stored = parts_.view->FindJob(key);
  if (stored != nullptr && WantsPlace(*stored)) {
    rounds_.Ask(key, notes_.wall_now, &notes_.news);
  }
  std::set<std::string> names;
  for (const kube::Item<kube::Pod>* pod : parts_.view->PodsOf(key)) {
    names.insert(pod->key.name);
  }
  reports_.KeepOnly(key, names);
}

Result<JobSight> ApiCluster::See(const JobId& key) const {
  ClusterView* const view = parts_.view;
  const StoredJob* const stored = view->FindJob(key);
  if (stored == nullptr) {
    return Error(ErrorCode::kNotFound, key.namespace_name + "/" + key.name + " no longer exists");
  }
  JobSight seen{stored->job, {}};
  Observed& observed = seen.observed;
  observed.settings = settings_;
  observed.job_problem = stored->problem;
  observed.is_job_newer = stored->is_newer;
  observed.is_job_deleting = stored->is_deleting;
  observed.job_finalizers = stored->finalizers;
  observed.is_status_foreign = stored->is_status_foreign && IsOurs(stored->job);
  for (const kube::Item<kube::Pod>* pod : view->PodsOf(key)) {
    observed.pods.push_back(*pod->object);
  }
  observed.nodes = view->Nodes();
  observed.topology_levels = view->topology_levels();
  if (WantsPlace(*stored)) {
    LOCKSTEP_CHECK(asked_ == key, "no scheduling round was made for " + GangNameOf(key));
    observed.round = view->allocator().AnswerFor(key);
    observed.claim = rounds_.ClaimFor(key);
    observed.queue_position = {
        QueueOf(stored->job.spec), rounds_.PositionOf(key), EstimatedStartIn(*observed.round)};
    observed.queue_order = view->QueueOrderOf(observed.queue_position->name);
  } else {
    observed.round = AwaitsRound();
    observed.eviction = view->EvictionOf(key, notes_.wall_now);
    observed.quota_excess = !stored->job.status.has_run && AskForMore(stored->job, observed.pods)
                                ? view->QuotaExcessOf(key, notes_.wall_now)
                                : "";
  }
  const PriorityTerms priority = view->PriorityOf(key);
  observed.missing_class = priority.missing;
  if (priority.missing.empty()) {
    observed.priority = {priority.priority, priority.is_preemptible};
  }
  observed.run_time_limit = view->RunTimeLimitOf(key);
  observed.kueue = view->KueueOf(key);
  observed.provisioning = view->ProvisioningOf(key);
  observed.native = view->NativeOf(key);
  observed.native.is_enabled = parts_.binds_natively;
  if (const auto why = notes_.refused_writes.find(key); why != notes_.refused_writes.end()) {
    const auto workload = why->second.find(WorkloadName(stored->job.metadata));
    observed.kueue.refusal = workload == why->second.end() ? "" : workload->second;
    observed.provisioning.refusals = why->second;
    observed.native.refusals = why->second;
  }
  observed.used_elsewhere = view->UsedBesides(key);
  observed.devices_elsewhere = view->DevicesElsewhere(key);
  if (const auto refused = notes_.refused_pods.find(key); refused != notes_.refused_pods.end()) {
    observed.refused_pods = refused->second;
  }
  observed.service = ServiceOf(key, stored->job);
  AddReports(key, &observed);
  return seen;
}

ServiceState ApiCluster::ServiceOf(const JobId& key, const TrainingJob& job) const {
  if (notes_.foreign_services.count(key) > 0) {
    return ServiceState::kForeign;
  }
  const kube::Item<kube::Service>* const service =
      parts_.view->FindService({key.namespace_name, key.name});
  if (service == nullptr || service->object->owner_uid != job.metadata.uid) {
    // Of an earlier job of this name, or none that we see: making it tells which.
    return ServiceState::kMissing;
  }
  return JudgeService(job, service->object.get());
}

void ApiCluster::StartStatusWrite(const JobId& key, const TrainingJob& job) {
  const StatusWriteParts parts{parts_.view, &notes_, parts_.publisher};
  errands_.Begin(key, std::make_unique<StatusWrite>(parts, job));
}

void ApiCluster::StartEffects(const JobId& key,
                              const TrainingJob& job,
                              const std::vector<Effect>& effects) {
  const StoredJob* const stored = parts_.view->FindJob(key);
  if (stored == nullptr || stored->job.metadata.uid != job.metadata.uid) {
    const Error gone(ErrorCode::kNotFound, "the job no longer exists");
    answers_.push_back({key, std::vector<Status>(effects.size(), gone)});
    return;
  }
  const EffectBatchParts parts{parts_.view, &notes_, parts_.control, &settings_, &levels_, now_};
  errands_.Begin(key,
                 std::make_unique<EffectBatch>(parts, job, JobSecretOf(job.metadata.uid), effects));
}

std::vector<ClusterAnswer> ApiCluster::TakeAnswers() {
  std::vector<ClusterAnswer> answers = std::exchange(answers_, {});
  for (auto finished = errands_.TakeFinished(); !finished.empty();
       finished = errands_.TakeFinished()) {
    for (ClusterAnswer& answer : finished) {
      if (answer.key == kAllJobs) {
        EndListing(answer.statuses.front(), &answers);
        continue;
      }
      if (answer.key == kAllQueues) {
        EndQueueReport(answer.statuses.front());
        continue;
      }
      if (permissions_asked_.erase(answer.key) > 0) {
        continue;
      }
      if (parts_.view->FindJob(answer.key) == nullptr) {
        notes_.Forget(answer.key);
        reports_.Forget(answer.key);
        parts_.view->EndReservation(answer.key, &notes_.news);  // no look will
      }
      answers.push_back(std::move(answer));
    }
  }
  return answers;
}

// Without a job nobody lists them, and there is nothing that could be unknown.
bool ApiCluster::MayReportQueues() const {
  return !is_reporting_queues_ && (!must_list_jobs_ || !parts_.view->has_jobs());
}

void ApiCluster::ReportQueues() {
  if (!MayReportQueues()) {
    return;
  }
  auto patches = queue_reporter_.Take(now_, notes_.wall_now);
  if (!patches.empty()) {
    is_reporting_queues_ = true;
    errands_.Begin(kAllQueues, std::make_unique<QueueReport>(std::move(patches)));
  }
}

void ApiCluster::EndQueueReport(const Status& answer) {
  is_reporting_queues_ = false;
  if (!answer.ok() && answer.error().code() != ErrorCode::kNotFound) {
    queue_reporter_.NoteFailed();
    if (answer.error().code() != ErrorCode::kStale) {  // somebody wrote since: the next has seen it
      parts_.logger->Warn("the status of queues could not be written",
                          {{"error", answer.error().ToString()}});
    }
  }
}

void ApiCluster::Abandon() {
  errands_.Abandon();
  is_reporting_queues_ = false;
  permissions_asked_.clear();
  held_looks_.clear();
  answers_.clear();
  parts_.view->EndReservations(&notes_.news);
}

void ApiCluster::Publish(const JobId& key, const Decision& decision) {
  if (!decision.metrics.empty()) {
    parts_.publisher->OnMetrics(decision.metrics);
  }
  const StoredJob* const stored = parts_.view->FindJob(key);
  if (stored != nullptr && !decision.events.empty()) {
    parts_.publisher->OnEvents(stored->job, decision.events);
  }
}

void ApiCluster::AddReports(const JobId& key, Observed* observed) const {
  for (const kube::Item<kube::Pod>* pod : parts_.view->PodsOf(key)) {
    const std::string& name = pod->key.name;
    const PodReports::Entry* const entry = reports_.Find(key, name);
    if (entry == nullptr) {
      continue;
    }
    if (entry->report.has_value()) {
      observed->reports[name] = {entry->report->document, now_ - entry->report->received};
    }
    if (entry->refusal.has_value()) {
      observed->refusing_pods[name] = *entry->refusal;
    }
    if (entry->closed_at.has_value() && now_ - *entry->closed_at <= kReportFresh) {
      observed->closed_pods.insert(name);
    }
  }
}

}  // namespace lockstep::control
