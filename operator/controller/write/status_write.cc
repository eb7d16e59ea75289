#include "operator/controller/write/status_write.h"

#include <utility>
#include <variant>

#include "operator/api/job/encode.h"
#include "operator/api/job/placement.h"
#include "operator/controller/look/look.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/job_objects.h"

namespace lockstep::control {

StatusWrite::StatusWrite(const StatusWriteParts& parts, const TrainingJob& job)
    : parts_(parts),
      job_(job),
      key_{job_.metadata.namespace_name, job_.metadata.name},
      version_(parts_.view->JobVersion(key_)) {
  const StoredJob* const stored = parts_.view->FindJob(key_);
  if (stored == nullptr) {
    stage_ = Stage::kOver;
    answer_ = Error(ErrorCode::kNotFound, "the job no longer exists");
    return;
  }
  before_ = stored->job.status;
  given_up_ = PodsGivenUp();
  parts_.view->Reserve(key_, job_.status);
}

std::vector<ErrandCall> StatusWrite::Next() {
  if (stage_ == Stage::kConfirming) {
    stage_ = Stage::kWriting;
    std::vector<ErrandCall> calls =
        PodReadings(key_, given_up_, parts_.view, parts_.notes, [this](Status status) {
          Note(std::move(status));
        });
    if (!calls.empty()) {
      return calls;
    }
  }
  if (stage_ == Stage::kWriting) {
    stage_ = Stage::kOver;
    Note(CheckGivenUp());
    if (answer_.ok()) {
      return {Writing()};
    }
  }
  return {};
}

std::vector<Status> StatusWrite::TakeAnswers() {
  if (parts_.notes->unsettled.count(key_) == 0) {
    parts_.view->EndReservation(key_, &parts_.notes->news);
  }
  return {answer_};
}

void StatusWrite::Note(Status status) {
  if (answer_.ok()) {
    answer_ = std::move(status);
  }
}

// Pods that have not come to run, as far as we see, and that the new status does not keep.
std::vector<std::string> StatusWrite::PodsGivenUp() const {
  std::vector<std::string> names;
  for (const kube::Item<kube::Pod>* item : parts_.view->PodsOf(key_)) {
    const auto identity = IdentityOf(*item->object);
    if (item->object->status.phase != kube::PodPhase::kPending || item->object->is_deleting ||
        !identity.has_value() || identity->number.attempt != before_.attempt) {
      continue;
    }
    const PodPlacement* const place = FindPlacement(job_.status, identity->task);
    const bool is_kept = before_.attempt == job_.status.attempt && place != nullptr &&
                         place->incarnation == identity->number.incarnation;
    if (!is_kept) {
      names.push_back(item->key.name);
    }
  }
  return names;
}

Status StatusWrite::CheckGivenUp() const {
  for (const std::string& name : given_up_) {
    const auto* const pod = parts_.view->FindPod({key_.namespace_name, name});
    if (pod == nullptr || pod->object->status.phase != kube::PodPhase::kPending) {
      return Error(ErrorCode::kStale, "pod " + name + " has changed since it was last seen");
    }
  }
  return OkStatus();
}

ErrandCall StatusWrite::Writing() {
  return {[this] {
            return kube::Update(kube::kTrainingJobs,
                                key_.namespace_name,
                                key_.name,
                                StatusBody(job_, version_),
                                "status");
          },
          [this](kube::CallResult result) { Note(Read(std::move(result))); }};
}

Status StatusWrite::Read(kube::CallResult result) {
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  if (!reply.ok()) {
    if (reply.error().code() != ErrorCode::kNotFound) {
      parts_.notes->unsettled.insert(
          key_);  // somebody wrote it: we, unheard, or another: a look tells
    }
    return reply.error();
  }
  const auto written = kube::DecodeRaw(reply->body);
  if (!written.ok() || parts_.view->FindJob(key_) == nullptr) {
    parts_.notes->unsettled.insert(key_);
    return written.ok() ? Error(ErrorCode::kUnavailable,
                                "the job was deleted while its status was being written")
                        : written.error();
  }
  if (before_.attempt != job_.status.attempt) {
    parts_.notes->refused_pods.erase(key_);  // those names are not wanted any more
  }
  parts_.view->NoteStatus(key_, job_.status, written->resource_version, &parts_.notes->news);
  parts_.publisher->OnStatus(before_, job_);
  return OkStatus();
}

}  // namespace lockstep::control
