#include "operator/controller/write/object_write.h"

#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/contract/text/text.h"
#include "common/json/json.h"
#include "operator/capacity/sight/provisioning_sight.h"
#include "operator/view/capacity/provisioning_objects.h"
#include "operator/view/stored/object_origin.h"

namespace lockstep::control {

kube::Request RequestOf(const std::string& namespace_name, const WriteObject& write) {
  switch (write.kind) {
    case WriteObject::Kind::kCreate:
      return kube::Create(write.resource, namespace_name, write.body);
    case WriteObject::Kind::kPatch:
      return kube::MergePatch(write.resource, namespace_name, write.name, write.body, "status");
    case WriteObject::Kind::kDelete:
      break;
  }
  return kube::Delete(write.resource, namespace_name, write.name, {write.uid, std::nullopt, false});
}

Status AnswerTo(const WriteObject& write, kube::CallResult result) {
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  const bool is_past =
      !reply.ok() && write.kind != WriteObject::Kind::kCreate &&
      (reply.error().code() == ErrorCode::kStale || reply.error().code() == ErrorCode::kNotFound);
  return reply.ok() || is_past ? OkStatus() : Status(reply.error());
}

std::optional<SpoiltPod> FindSpoilt(const WriteObject& write, const kube::CallResult& result) {
  const auto* const reply = std::get_if<kube::Reply>(&result);
  if (write.kind != WriteObject::Kind::kCreate || write.resource != kube::kPods ||
      reply == nullptr || !reply->is_success()) {
    return std::nullopt;
  }
  const auto pod = DecodePlaceholder(reply->body);
  if (!pod.ok() || pod->object->trouble.empty()) {
    return std::nullopt;
  }
  return SpoiltPod{{WriteObject::Kind::kDelete, kube::kPods, write.name, pod->uid, ""},
                   Error(ErrorCode::kInvalidArgument, "it " + pod->object->trouble)};
}

Status OwnedBy(const std::string& job_uid, const WriteObject& write, kube::CallResult result) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply, kube::RequireSuccess(std::move(result)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(reply.body));
  std::vector<Error> errors;
  ObjectReader reader(document, "", &errors);
  const ObjectOrigin origin = ReadOrigin(reader, "", &errors);
  return origin.owner_uid == job_uid
             ? OkStatus()
             : Status(Error(ErrorCode::kAlreadyExists,
                            "the name " + write.name +
                                " is taken by an object that does not belong to this job"));
}

void NoteWrite(const JobId& job,
               const WriteObject& write,
               const Status& answer,
               ClusterNotes* notes) {
  std::map<std::string, std::string>& refused = notes->refused_writes[job];
  refused.erase(write.name);
  if (!answer.ok()) {
    if (refused.size() >= ClusterNotes::kRefusedWritesMax) {
      refused.erase(refused.begin());
    }
    // Of a create: nothing is missing but the kind, whose definition was removed, or the namespace,
    // with which the job goes.
    const bool is_kind_unknown =
        write.kind == WriteObject::Kind::kCreate && answer.error().code() == ErrorCode::kNotFound;
    refused[write.name] = is_kind_unknown
                              ? kKindIsUnknown
                              : CutText(answer.error().message(), ClusterNotes::kRefusalBytesMax);
  }
  if (refused.empty()) {
    notes->refused_writes.erase(job);
  }
}

}  // namespace lockstep::control
