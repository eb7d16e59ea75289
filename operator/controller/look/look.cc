#include "operator/controller/look/look.h"

#include <utility>

#include "common/json/json.h"
#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/json_stream.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// Objects read at once. Choice: a job of 500 workers is 100 KB, and one page is held whole.
constexpr int kPageSize = 100;

// Rounds of one look. Choice: one for the job, one for its pods, one for its service, and as many
// pages as 10,000 pods have. What goes on changing is looked at again later.
constexpr int kRoundsMax = 110;

}  // namespace

kube::Request Listing::Next() const {
  kube::ListOptions page;
  page.limit = kPageSize;
  page.continue_token = continue_token_;
  return kube::List(selection_, page);
}

Status Listing::Read(kube::CallResult result) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply, kube::RequireSuccess(std::move(result)));
  kube::ListSplitter splitter;
  LOCKSTEP_RETURN_IF_ERROR(splitter.Feed(reply.body, learn_));
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::ListHead head, splitter.Finish());
  continue_token_ = head.continue_token;
  is_over_ = continue_token_.empty();
  return OkStatus();
}

Look::Look(JobId key, ClusterView* view, ClusterNotes* notes)
    : key_(std::move(key)), view_(view), notes_(notes) {}

std::vector<ErrandCall> Look::Next() {
  if (!answer_.ok()) {
    return {};
  }
  if (++rounds_ > kRoundsMax) {
    Note(Error(ErrorCode::kUnavailable,
               "the job's objects change faster than the operator can read them"));
    return {};
  }
  lists_seen_ = view_->list_count();
  const StoredJob* const stored = view_->FindJob(key_);
  const bool is_to_stay = stored != nullptr && !stored->is_deleting;
  const bool is_in_doubt = notes_->unsettled.count(key_) > 0;
  if (is_in_doubt || (stored != nullptr && !has_read_job_ && IsBehindItsPods(*stored))) {
    return {JobReading()};
  }
  if (is_to_stay && HasPodsToList(*stored)) {
    return {PodListing()};
  }
  // A pod that was seen and is not in the view has ended only if the server says so: the view of an
  // operator that has just started, or lost its watch, may be older than the status it reads. Pods
  // of a job that is gone may hold room here that has long been free.
  std::vector<std::string> names = view_->UncertainPods(key_);
  if (!std::exchange(has_asked_untold_, true)) {
    const std::vector<std::string> untold = view_->UntoldPods(key_, notes_->wall_now);
    names.insert(names.end(), untold.begin(), untold.end());
  }
  std::vector<ErrandCall> pods =
      PodReadings(key_, names, view_, notes_, [this](Status status) { Note(status); });
  if (!pods.empty()) {
    return pods;
  }
  if (is_to_stay && !std::exchange(has_relabelled_, true)) {
    std::vector<ErrandCall> restorings = LabelRestorings(*stored);
    if (!restorings.empty()) {
      return restorings;
    }
  }
  // Nothing tells of services that do not carry our label: a foreign one may have gone.
  if (is_to_stay && !has_read_service_ && notes_->foreign_services.count(key_) > 0) {
    return {ServiceReading()};
  }
  return {};
}

std::vector<Status> Look::TakeAnswers() {
  if (answer_.ok() && view_->FindJob(key_) == nullptr) {
    return {
        Error(ErrorCode::kNotFound, key_.namespace_name + "/" + key_.name + " no longer exists")};
  }
  return {answer_};
}

// The first thing that went wrong.
void Look::Note(Status status) {
  if (answer_.ok()) {
    answer_ = std::move(status);
  }
}

// An operator that has just taken over may see pods of a decision that it has not seen yet. Acting
// on the older status would undo it.
bool Look::IsBehindItsPods(const StoredJob& stored) const {
  const TrainingJobStatus& status = stored.job.status;
  for (const kube::Item<kube::Pod>* pod : view_->PodsOf(key_)) {
    const auto identity = IdentityOf(*pod->object);
    if (!identity.has_value() || identity->job_uid != stored.job.metadata.uid) {
      continue;
    }
    const PodPlacement* const placement = FindPlacement(status, identity->task);
    const bool is_blank = status.attempt == Attempt() && status.placement.empty() &&
                          FindCondition(status, ConditionType::kCreated) == nullptr;
    if (is_blank || identity->number.attempt > status.attempt ||
        (identity->number.attempt == status.attempt && placement != nullptr &&
         identity->number.incarnation > placement->incarnation)) {
      return true;
    }
  }
  return false;
}

// A job between two attempts names no pods in its status. Those that the last leader has made and
// removed may still run, and a view that lags shows none of them: the next gang would stand beside.
bool Look::HasPodsToList(const StoredJob& stored) const {
  const TrainingJobStatus& status = stored.job.status;
  return status.attempt != Attempt() && status.placement.empty() &&
         notes_->pods_listed.count(key_) == 0;
}

ErrandCall Look::JobReading() {
  const StoredJob* const stored = view_->FindJob(key_);
  const std::string known_uid = stored == nullptr ? std::string() : stored->job.metadata.uid;
  return {
      [this] { return kube::Get(kube::kTrainingJobs, key_.namespace_name, key_.name); },
      [this, known_uid](kube::CallResult result) { Note(ReadJob(known_uid, std::move(result))); }};
}

// `known_uid`: of the job as it was known when the server was asked; empty: none was.
Status Look::ReadJob(const std::string& known_uid, kube::CallResult result) {
  has_read_job_ = true;
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  if (reply.ok()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto job, kube::DecodeRaw(reply->body));
    view_->LearnJob(job, &notes_->news);
    if (view_->list_count() != lists_seen_) {
      return OkStatus();  // it may have gone since: asked once more
    }
  } else if (reply.error().code() != ErrorCode::kNotFound) {
    return reply.error();
  } else if (const StoredJob* const stored = view_->FindJob(key_)) {
    if (stored->job.metadata.uid != known_uid) {
      notes_->unsettled.insert(key_);  // made since: asked once more
      return OkStatus();
    }
    view_->LearnJobIsGone(key_, known_uid, &notes_->news);
  }
  notes_->unsettled.erase(key_);
  view_->EndReservation(key_, &notes_->news);
  return OkStatus();
}

ErrandCall Look::PodListing() {
  if (!pods_) {
    pods_.emplace(
        kube::Selection{
            kube::kPods, key_.namespace_name, std::string(label::kJob) + "=" + key_.name, ""},
        [this](std::string_view json) {
          if (const auto pod = kube::DecodePod(json); pod.ok()) {
            view_->LearnPod(*pod, &notes_->news);
          }
        });
  }
  return {[this] { return pods_->Next(); },
          [this](kube::CallResult result) {
            Note(pods_->Read(std::move(result)));
            if (pods_->is_over()) {
              notes_->pods_listed.insert(key_);
            }
          }};
}

// Somebody has written in the labels of pods that are the job's: watches and its service find them
// by these. Of that very pod as it was seen: whoever changes it meanwhile is looked at again.
std::vector<ErrandCall> Look::LabelRestorings(const StoredJob& stored) {
  std::vector<ErrandCall> calls;
  for (const kube::Item<kube::Pod>* pod : view_->MislabelledPodsOf(key_)) {
    const kube::Pod& object = *pod->object;
    if (object.owner_uid != stored.job.metadata.uid || object.is_deleting || HasEnded(object)) {
      continue;
    }
    Json metadata = {{"uid", pod->uid}, {"resourceVersion", pod->resource_version}};
    metadata["labels"] = LackingLabels(object);
    calls.push_back({[key = pod->key, body = DumpJson({{"metadata", metadata}})] {
                       return kube::MergePatch(kube::kPods, key.namespace_name, key.name, body);
                     },
                     [this, name = pod->key.name](kube::CallResult result) {
                       Note(ReadRelabelled(name, std::move(result)));
                     }});
  }
  return calls;
}

// Where that cannot be done the job is not decided on: nobody would tell of the pod's end.
Status Look::ReadRelabelled(const std::string& pod, kube::CallResult result) {
  view_->DoubtPod(key_, pod);  // until what the server says is known
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  if (!reply.ok() && reply.error().code() != ErrorCode::kNotFound) {
    return Error(reply.error())
        .Wrap("pod " + pod + " has lost labels, and the operator cannot restore them");
  }
  if (reply.ok()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto decoded, kube::DecodePod(reply->body));
    view_->LearnPodOfName(key_, decoded, &notes_->news);
  }
  return OkStatus();
}

ErrandCall Look::ServiceReading() {
  return {[this] { return kube::Get(kube::kServices, key_.namespace_name, key_.name); },
          [this](kube::CallResult result) { Note(ReadService(std::move(result))); }};
}

Status Look::ReadService(kube::CallResult result) {
  has_read_service_ = true;
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  const StoredJob* const stored = view_->FindJob(key_);
  if (!reply.ok() && reply.error().code() != ErrorCode::kNotFound) {
    return reply.error();
  }
  if (reply.ok()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto service, kube::DecodeService(reply->body));
    if (stored == nullptr || service.object->owner_uid != stored->job.metadata.uid) {
      return OkStatus();
    }
    if (view_->list_count() == lists_seen_) {  // else the watch tells
      view_->LearnService(service, &notes_->news);
    }
  }
  notes_->foreign_services.erase(key_);
  return OkStatus();
}

std::vector<ErrandCall> PodReadings(const JobId& key,
                                    const std::vector<std::string>& names,
                                    ClusterView* view,
                                    ClusterNotes* notes,
                                    const std::function<void(Status)>& note) {
  std::vector<ErrandCall> calls;
  const int64_t lists_seen = view->list_count();
  for (const std::string& name : names) {
    const auto* const known = view->FindPod({key.namespace_name, name});
    const std::string known_uid = known == nullptr ? std::string() : known->uid;
    calls.push_back({[key, name] { return kube::Get(kube::kPods, key.namespace_name, name); },
                     [=](kube::CallResult result) {
                       const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
                       if (!reply.ok() && reply.error().code() == ErrorCode::kNotFound) {
                         view->LearnPodIsMissing(key, name, known_uid, &notes->news);
                         return;
                       }
                       const auto pod = reply.ok() ? kube::DecodePod(reply->body) : reply.error();
                       if (!pod.ok()) {
                         note(pod.error());
                         return;
                       }
                       view->LearnPodOfName(key, *pod, &notes->news);
                       if (view->list_count() != lists_seen) {
                         view->DoubtPod(key, name);
                       }
                     }});
  }
  return calls;
}

JobsLook::JobsLook(ClusterView* view, ClusterNotes* notes)
    : view_(view),
      notes_(notes),
      lists_seen_(view->list_count()),
      jobs_({kube::kTrainingJobs, view->ServedNamespace(), "", ""},
            [this, view](std::string_view json) {
              if (const auto job = kube::DecodeRaw(json); job.ok()) {
                unlisted_.erase({job->key.namespace_name, job->key.name});
                view->LearnJob(*job, &notes_->news);
              }
            }) {
  const std::vector<JobId> known = view->Jobs();
  unlisted_ = {known.begin(), known.end()};
}

std::vector<ErrandCall> JobsLook::Next() {
  if (!answer_.ok()) {
    return {};
  }
  if (jobs_.is_over()) {
    // Gone, or made after the first page was read: each is read anew before it is decided on.
    notes_->unsettled = std::move(unlisted_);
    if (view_->list_count() != lists_seen_) {
      const std::vector<JobId> known = view_->Jobs();
      notes_->unsettled.insert(known.begin(), known.end());
    }
    return {};
  }
  return {{[this] { return jobs_.Next(); },
           [this](kube::CallResult result) { answer_ = jobs_.Read(std::move(result)); }}};
}

}  // namespace lockstep::control
