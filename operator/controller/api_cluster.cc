#include "operator/controller/api_cluster.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/digest.h"
#include "operator/api/placement.h"
#include "operator/kube/decode.h"
#include "operator/kube/json_stream.h"
#include "operator/reconcile/build/job_objects.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// Objects read at once. Choice: a job of 500 workers is 100 KB, and one page is held whole.
constexpr int kPageSize = 100;

void Spread(ReportNews weight, const JobId& job, News* news) {
  if (weight != ReportNews::kNone) {
    (weight == ReportNews::kUrgent ? news->urgent : news->calm).insert(job);
  }
}

bool MakesPods(const std::vector<Effect>& effects) {
  return std::any_of(effects.begin(), effects.end(), [](const Effect& effect) {
    return std::holds_alternative<CreatePod>(effect);
  });
}

}  // namespace

ApiCluster::ApiCluster(PodSettings settings, ApiClusterParts parts)
    : settings_(std::move(settings)),
      parts_(parts),
      levels_(settings_.pod_security, parts_.api, parts_.logger) {}

void ApiCluster::SetTime(TimePoint now, WallTime wall_now) {
  now_ = now;
  wall_now_ = wall_now;
}

void ApiCluster::Lead(const std::string& master_key) {
  master_key_ = master_key;
  must_list_jobs_ = true;
  pods_listed_.clear();
  // Of an earlier time as leader: what was true then may not be now.
  reports_.Clear();
  refused_pods_.clear();
  foreign_services_.clear();
}

void ApiCluster::Accept(PodReport report, News* news) {
  const kube::Item<kube::Pod>* const pod = parts_.view->FindPod(report.pod);
  if (pod == nullptr) {
    return;
  }
  const auto identity = ParsePodLabels(pod->object->labels);
  if (!identity.has_value() || identity->job_uid != report.document.job_uid) {
    return;
  }
  const JobId job{report.pod.namespace_name, identity->job};
  Spread(reports_.Accept(job, std::move(report)), job, news);
}

void ApiCluster::NoteClosed(const kube::ObjectKey& pod, TimePoint when, News* news) {
  const kube::Item<kube::Pod>* const known = parts_.view->FindPod(pod);
  const auto identity = known == nullptr ? std::nullopt : ParsePodLabels(known->object->labels);
  if (!identity.has_value()) {
    return;
  }
  const JobId job{pod.namespace_name, identity->job};
  Spread(reports_.NoteClosed(job, pod.name, when), job, news);
}

std::string ApiCluster::JobSecretOf(const std::string& job_uid) const {
  return HmacSha256Hex(master_key_, job_uid);
}

News ApiCluster::TakeNews() {
  return std::exchange(news_, News{});
}

Result<TrainingJob> ApiCluster::ReadJob(const JobId& key) {
  LOCKSTEP_RETURN_IF_ERROR(CatchUp());
  const StoredJob* stored = parts_.view->FindJob(key);
  if (stored != nullptr && IsBehindItsPods(key, *stored)) {
    LOCKSTEP_RETURN_IF_ERROR(Refresh({key}));
    stored = parts_.view->FindJob(key);
  }
  if (stored == nullptr || stored->is_deleting) {
    // Pods that it left may hold room here that has long been free.
    LOCKSTEP_RETURN_IF_ERROR(ConfirmPods(key));
    Forget(key);
    return Error(ErrorCode::kNotFound, key.namespace_name + "/" + key.name + " is gone");
  }
  return stored->job;
}

Result<Observed> ApiCluster::Observe(const JobId& key) {
  LOCKSTEP_RETURN_IF_ERROR(ListPodsOnce(key));
  LOCKSTEP_RETURN_IF_ERROR(ConfirmPods(key));
  ClusterView* const view = parts_.view;
  const StoredJob* const stored = view->FindJob(key);
  if (stored == nullptr) {
    return Error(ErrorCode::kUnavailable, "the job went while its pods were looked for");
  }
  Observed observed;
  observed.settings = settings_;
  observed.job_problem = stored->problem;
  for (const kube::Item<kube::Pod>* pod : view->PodsOf(key)) {
    observed.pods.push_back(*pod->object);
  }
  observed.nodes = view->Nodes();
  observed.used_elsewhere = view->UsedElsewhere(key);
  observed.used_by_strangers = view->UsedByStrangers();
  observed.devices_elsewhere = view->DevicesElsewhere(key);
  observed.ahead = view->Ahead(key, wall_now_);
  if (const auto refused = refused_pods_.find(key); refused != refused_pods_.end()) {
    observed.refused_pods = refused->second;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(observed.service, ServiceOf(key, stored->job));
  AddReports(key, &observed);
  return observed;
}

void ApiCluster::Reserve(const TrainingJob& job) {
  parts_.view->Reserve({job.metadata.namespace_name, job.metadata.name}, job.status);
}

std::vector<Status> ApiCluster::WriteStatuses(const std::vector<TrainingJob>& jobs) {
  std::vector<Status> answers(jobs.size(), OkStatus());
  std::vector<std::size_t> asked;
  std::vector<kube::Request> requests;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (Result<kube::Request> request = StatusRequest(jobs[i]); request.ok()) {
      asked.push_back(i);
      requests.push_back(std::move(request).value());
    } else {
      answers[i] = request.error();
    }
  }
  if (!requests.empty()) {
    std::vector<kube::CallResult> results = parts_.api->CallAll(requests);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      answers[asked[i]] = ReadWrittenStatus(jobs[asked[i]], std::move(results[i]));
    }
  }
  parts_.view->EndReservations(&news_);
  return answers;
}

Result<kube::Request> ApiCluster::StatusRequest(const TrainingJob& job) {
  const JobId key{job.metadata.namespace_name, job.metadata.name};
  const StoredJob* const stored = parts_.view->FindJob(key);
  if (stored == nullptr) {
    return Error(ErrorCode::kNotFound, "the job is gone");
  }
  LOCKSTEP_RETURN_IF_ERROR(ConfirmGivenUp(key, TrainingJobStatus(stored->job.status), job.status));
  return kube::Update(kube::kTrainingJobs,
                      key.namespace_name,
                      key.name,
                      StatusBody(job, parts_.view->JobVersion(key)),
                      "status");
}

Status ApiCluster::ReadWrittenStatus(const TrainingJob& job, kube::CallResult result) {
  const JobId key{job.metadata.namespace_name, job.metadata.name};
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  if (!reply.ok()) {
    if (reply.error().code() != ErrorCode::kNotFound) {
      unsettled_.insert(key);  // somebody wrote it: we, unheard, or another
    }
    return reply.error();
  }
  const auto written = kube::DecodeRaw(reply->body);
  const StoredJob* const stored = parts_.view->FindJob(key);
  if (!written.ok() || stored == nullptr) {
    unsettled_.insert(key);
    return written.ok() ? Error(ErrorCode::kUnavailable, "the job went while it was written")
                        : written.error();
  }
  const TrainingJobStatus before = stored->job.status;
  if (before.attempt != job.status.attempt) {
    refused_pods_.erase(key);  // those names are not wanted any more
  }
  parts_.view->NoteStatus(key, job.status, written->resource_version, &news_);
  parts_.publisher->OnStatus(before, job);
  return OkStatus();
}

std::vector<PodSettings> ApiCluster::SettingsFor(const std::vector<JobEffects>& jobs) {
  std::vector<PodSettings> settings(jobs.size(), settings_);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (MakesPods(jobs[i].effects)) {
      settings[i].pod_security = levels_.Of(jobs[i].key.namespace_name, now_);
    }
  }
  return settings;
}

std::vector<std::vector<Status>> ApiCluster::Apply(const std::vector<JobEffects>& jobs) {
  const EffectBatchParts parts{parts_.view, parts_.api, parts_.control, &news_};
  std::vector<std::vector<Status>> answers(jobs.size());
  std::vector<std::size_t> at;  // of each batch, in `jobs`
  const std::vector<PodSettings> settings =
      SettingsFor(jobs);  // outlives the batches, which refer to it
  std::deque<EffectBatch> batches;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (const StoredJob* const stored = parts_.view->FindJob(jobs[i].key)) {
      at.push_back(i);
      batches.emplace_back(
          parts, settings[i], stored->job, JobSecretOf(stored->job.metadata.uid), jobs[i].effects);
    } else {
      answers[i].assign(jobs[i].effects.size(), Error(ErrorCode::kNotFound, "the job is gone"));
    }
  }
  EffectBatch::RunAll(&batches, parts_.api);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    answers[at[i]] = batches[i].answers();
    NoteRefusals(jobs[at[i]].key, batches[i]);
  }
  return answers;
}

void ApiCluster::NoteRefusals(const JobId& key, const EffectBatch& batch) {
  std::map<std::string, PodRefusal>& refused = refused_pods_[key];
  for (const std::string& name : batch.created_pods()) {
    refused.erase(name);
  }
  for (const auto& [name, refusal] : batch.refused_pods()) {
    const auto known = refused.find(name);
    const int64_t count = known == refused.end() ? 1 : known->second.count + 1;
    refused[name] = {refusal.message, refusal.is_invalid, count, wall_now_};
  }
  if (refused.empty()) {
    refused_pods_.erase(key);
  }
  if (batch.is_service_foreign()) {
    foreign_services_.insert(key);
  }
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

// An operator that has just taken over may see pods of a decision that it has not seen yet. Acting
// on the older status would undo it.
bool ApiCluster::IsBehindItsPods(const JobId& key, const StoredJob& stored) const {
  const TrainingJobStatus& status = stored.job.status;
  for (const kube::Item<kube::Pod>* pod : parts_.view->PodsOf(key)) {
    const auto identity = ParsePodLabels(pod->object->labels);
    if (!identity.has_value() || identity->job_uid != stored.job.metadata.uid) {
      continue;
    }
    const PodPlacement* const placement = FindPlacement(status, identity->task);
    if (identity->number.attempt > status.attempt ||
        (identity->number.attempt == status.attempt && placement != nullptr &&
         identity->number.incarnation > placement->incarnation)) {
      return true;
    }
  }
  return false;
}

// Whatever is planned takes the room that no job was promised. So no job is planned while a status
// that the server has may be unknown here: the same room would be promised twice.
Status ApiCluster::CatchUp() {
  if (must_list_jobs_) {
    if (const Status listed = ListJobs(); !listed.ok()) {
      return Error(ErrorCode::kUnavailable, "jobs not listed: " + listed.error().ToString());
    }
    must_list_jobs_ = false;
  }
  unsettled_.merge(parts_.view->TakeDoubtfulJobs());
  return Refresh(unsettled_);
}

// All jobs that there are, or were in the view.
Status ApiCluster::ListJobs() {
  const std::vector<JobId> known = parts_.view->Jobs();
  std::set<JobId> unlisted{known.begin(), known.end()};
  LOCKSTEP_RETURN_IF_ERROR(ListAll({kube::kTrainingJobs, parts_.view->ServedNamespace(), "", ""},
                                   [&](std::string_view json) {
                                     if (const auto job = kube::DecodeRaw(json); job.ok()) {
                                       unlisted.erase({job->key.namespace_name, job->key.name});
                                       parts_.view->LearnJob(*job, &news_);
                                     }
                                   }));
  unsettled_ = std::move(unlisted);  // gone, or made after the first page was read
  return OkStatus();
}

// Reads what the server itself has, not its cache.
Status ApiCluster::ListAll(const kube::Selection& selection,
                           const std::function<void(std::string_view json)>& learn) {
  kube::ListOptions page;
  page.limit = kPageSize;
  do {
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply,
                              kube::RequireSuccess(parts_.api->Call(kube::List(selection, page))));
    kube::ListSplitter splitter;
    LOCKSTEP_RETURN_IF_ERROR(splitter.Feed(reply.body, learn));
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::ListHead head, splitter.Finish());
    page.continue_token = head.continue_token;
  } while (!page.continue_token.empty());
  return OkStatus();
}

// Reads jobs one by one from the server itself.
Status ApiCluster::Refresh(const std::set<JobId>& keys) {
  if (keys.empty()) {
    return OkStatus();
  }
  const std::vector<JobId> jobs{keys.begin(), keys.end()};
  std::vector<kube::Request> requests;
  for (const JobId& key : jobs) {
    requests.push_back(kube::Get(kube::kTrainingJobs, key.namespace_name, key.name));
  }
  std::vector<kube::CallResult> results = parts_.api->CallAll(requests);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Result<kube::Reply> reply = kube::RequireSuccess(std::move(results[i]));
    if (reply.ok()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto job, kube::DecodeRaw(reply->body));
      parts_.view->LearnJob(job, &news_);
    } else if (reply.error().code() != ErrorCode::kNotFound) {
      return reply.error();
    } else if (const StoredJob* const stored = parts_.view->FindJob(jobs[i])) {
      parts_.view->LearnJobIsGone(jobs[i], std::string(stored->job.metadata.uid), &news_);
    }
    unsettled_.erase(jobs[i]);
  }
  return OkStatus();
}

// A pod that was seen and is not in the view has ended only if the server says so: the view of an
// operator that has just started, or lost its watch, may be older than the status it reads.
Status ApiCluster::ConfirmPods(const JobId& key) {
  return LookUpPods(key, parts_.view->UncertainPods(key));
}

// A job between two attempts names no pods in its status. Those that the last leader has made and
// removed may still run, and a view that lags shows none of them: the next gang would stand beside.
Status ApiCluster::ListPodsOnce(const JobId& key) {
  const StoredJob* const stored = parts_.view->FindJob(key);
  if (stored == nullptr || stored->job.status.attempt == Attempt() ||
      !stored->job.status.placement.empty() || pods_listed_.count(key) > 0) {
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(
      ListAll({kube::kPods, key.namespace_name, std::string(label::kJob) + "=" + key.name, ""},
              [&](std::string_view json) {
                if (const auto pod = kube::DecodePod(json); pod.ok()) {
                  parts_.view->LearnPod(*pod, &news_);
                }
              }));
  pods_listed_.insert(key);
  return OkStatus();
}

// A pod that has not come to run, as far as we see, is not given up on a view that is out of date,
// as it is for a while after an outage.
Status ApiCluster::ConfirmGivenUp(const JobId& key,
                                  const TrainingJobStatus& before,
                                  const TrainingJobStatus& after) {
  std::vector<std::string> names;
  for (const kube::Item<kube::Pod>* item : parts_.view->PodsOf(key)) {
    const auto identity = ParsePodLabels(item->object->labels);
    if (item->object->status.phase != kube::PodPhase::kPending || item->object->is_deleting ||
        !identity.has_value() || identity->number.attempt != before.attempt) {
      continue;
    }
    const PodPlacement* const place = FindPlacement(after, identity->task);
    const bool is_kept = before.attempt == after.attempt && place != nullptr &&
                         place->incarnation == identity->number.incarnation;
    if (!is_kept) {
      names.push_back(item->key.name);
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(LookUpPods(key, names));
  for (const std::string& name : names) {
    const auto* const pod = parts_.view->FindPod({key.namespace_name, name});
    if (pod == nullptr || pod->object->status.phase != kube::PodPhase::kPending) {
      return Error(ErrorCode::kStale, "pod " + name + " has changed since it was last seen");
    }
  }
  return OkStatus();
}

Status ApiCluster::LookUpPods(const JobId& key, const std::vector<std::string>& names) {
  if (names.empty()) {
    return OkStatus();
  }
  std::vector<kube::Request> requests;
  for (const std::string& name : names) {
    requests.push_back(kube::Get(kube::kPods, key.namespace_name, name));
  }
  std::vector<kube::CallResult> results = parts_.api->CallAll(requests);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Result<kube::Reply> reply = kube::RequireSuccess(std::move(results[i]));
    if (reply.ok()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto pod, kube::DecodePod(reply->body));
      parts_.view->LearnPodOfName(key, pod, &news_);
    } else if (reply.error().code() == ErrorCode::kNotFound) {
      parts_.view->LearnPodIsMissing(key, names[i], &news_);
    } else {
      return reply.error();
    }
  }
  return OkStatus();
}

Result<ServiceState> ApiCluster::ServiceOf(const JobId& key, const TrainingJob& job) {
  if (foreign_services_.count(key) > 0) {
    // Nothing tells of services that do not carry our label: it may have gone.
    const Result<kube::Reply> reply = kube::RequireSuccess(
        parts_.api->Call(kube::Get(kube::kServices, key.namespace_name, key.name)));
    if (reply.ok()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto service, kube::DecodeService(reply->body));
      if (service.object->owner_uid != job.metadata.uid) {
        return ServiceState::kForeign;
      }
      parts_.view->LearnService(service, &news_);
    } else if (reply.error().code() != ErrorCode::kNotFound) {
      return reply.error();
    }
    foreign_services_.erase(key);
  }
  const kube::Item<kube::Service>* const service =
      parts_.view->FindService({key.namespace_name, key.name});
  if (service == nullptr || service->object->owner_uid != job.metadata.uid) {
    // Of an earlier job of this name, or none that we see: making it tells which.
    return ServiceState::kMissing;
  }
  return JudgeService(job, service->object.get());
}

void ApiCluster::AddReports(const JobId& key, Observed* observed) {
  std::set<std::string> names;
  for (const kube::Item<kube::Pod>* pod : parts_.view->PodsOf(key)) {
    const std::string& name = *names.insert(pod->key.name).first;
    const PodReports::Entry* const entry = reports_.Find(key, name);
    if (entry == nullptr) {
      continue;
    }
    if (entry->report.has_value()) {
      observed->reports[name] = {entry->report->document, now_ - entry->report->received};
    }
    if (entry->closed_at.has_value() && now_ - *entry->closed_at <= kReportFresh) {
      observed->closed_pods.insert(name);
    }
  }
  reports_.KeepOnly(key, names);
}

void ApiCluster::Forget(const JobId& key) {
  unsettled_.erase(key);
  pods_listed_.erase(key);
  refused_pods_.erase(key);
  foreign_services_.erase(key);
  reports_.Forget(key);
}

}  // namespace lockstep::control
