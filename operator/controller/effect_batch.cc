#include "operator/controller/effect_batch.h"

#include <utility>
#include <variant>

#include "common/json/json.h"
#include "operator/kube/decode.h"
#include "operator/reconcile/build/job_objects.h"
#include "operator/reconcile/build/pod_manifest.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// Whether the object belonged to an earlier job of the same name, which is gone: names are unique,
// and this name is another's now. `uid` is set to the object's.
bool IsLeftOver(const std::string& body, const TrainingJob& job, std::string* uid) {
  const Result<Json> object = ParseJson(body);
  if (!object.ok()) {
    return false;
  }
  std::vector<Error> ignored;
  ObjectReader reader(*object, "", &ignored);
  const Json* const metadata = reader.Find("metadata");
  if (metadata == nullptr) {
    return false;
  }
  ObjectReader meta(*metadata, "metadata", &ignored);
  *uid = meta.String("uid").value_or("");
  for (const Json* owner : meta.List("ownerReferences")) {
    ObjectReader reference(*owner, "ownerReferences", &ignored);
    if (reference.Bool("controller").value_or(false) &&
        reference.String("kind") == std::string(kTrainingJobKind) &&
        reference.String("name") == job.metadata.name &&
        reference.String("uid") != job.metadata.uid) {
      return true;
    }
  }
  return false;
}

// Whether the server will not have it: a quota, an admission rule, or it is malformed.
bool IsRefusal(const Error& error) {
  return error.code() == ErrorCode::kResourceExhausted ||
         error.code() == ErrorCode::kInvalidArgument;
}

// Whether no later try can cure it: the server's own validation finds fault with fields of the pod
// that we built, or cannot read it as a pod. What webhooks and policies say, with whatever code,
// may change any moment; they name no field, or speak under their own name.
bool IsBeyondCure(const kube::Reply& reply) {
  const Result<Json> status = ParseJson(reply.body);
  if (!status.ok() || (reply.status != 400 && reply.status != 422)) {
    return false;
  }
  std::vector<Error> ignored;
  ObjectReader reader(*status, "", &ignored);
  const std::string message = reader.String("message").value_or("");
  if (reply.status == 400) {
    return message.starts_with("Pod in version \"v1\" cannot be handled as a Pod");
  }
  const Json* const details = reader.Find("details");
  if (!message.starts_with("Pod \"") || details == nullptr) {
    return false;
  }
  ObjectReader detail(*details, "details", &ignored);
  bool has_cause = false;
  for (const Json* cause : detail.List("causes")) {
    ObjectReader one(*cause, "causes", &ignored);
    const std::string field = one.String("field").value_or("");
    if (!field.starts_with("spec.") && !field.starts_with("metadata.")) {
      return false;
    }
    has_cause = true;
  }
  return has_cause;
}

}  // namespace

EffectBatch::EffectBatch(const EffectBatchParts& parts,
                         const PodSettings& settings,
                         TrainingJob job,
                         std::string job_key,
                         const std::vector<Effect>& effects)
    : parts_(parts),
      settings_(settings),
      job_(std::move(job)),
      job_key_(std::move(job_key)),
      effects_(effects),
      answers_(effects_.size(), OkStatus()) {
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    if (std::holds_alternative<PrepareJob>(effects_[i])) {
      preparation_ = i;
    }
  }
}

void EffectBatch::RunAll(std::deque<EffectBatch>* batches, kube::ApiCaller* api) {
  for (EffectBatch& batch : *batches) {
    batch.SendControls();
  }
  RunPhase(&EffectBatch::Preparations, batches, api);
  for (EffectBatch& batch : *batches) {
    if (batch.has_service_ahead_) {
      batch.SettleService();
    }
  }
  RunPhase(&EffectBatch::PodCreations, batches, api);
  RunPhase(&EffectBatch::PodInspections, batches, api);
  RunPhase(&EffectBatch::JobDeletions, batches, api);
}

void EffectBatch::RunPhase(Phase phase, std::deque<EffectBatch>* batches, kube::ApiCaller* api) {
  std::vector<kube::Request> requests;
  std::vector<std::pair<EffectBatch*, Call>> calls;
  for (EffectBatch& batch : *batches) {
    for (Call& call : (batch.*phase)()) {
      requests.push_back(std::move(call.request));
      calls.emplace_back(&batch, std::move(call));
    }
  }
  if (requests.empty()) {
    return;
  }
  std::vector<kube::CallResult> results = api->CallAll(requests);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto& [batch, call] = calls[i];
    batch->Answer(call.effect, call.read(std::move(results[i])));
  }
}

// The first failure of an effect is its answer.
void EffectBatch::Answer(std::size_t effect, Status status) {
  if (answers_[effect].ok()) {
    answers_[effect] = std::move(status);
  }
}

void EffectBatch::SendControls() {
  for (const Effect& effect : effects_) {
    const auto* const send = std::get_if<SendControl>(&effect);
    if (send == nullptr) {
      continue;
    }
    const auto* const pod = parts_.view->FindPod({job_.metadata.namespace_name, send->pod});
    if (pod != nullptr && pod->object->status.phase == kube::PodPhase::kRunning) {
      parts_.control->Send(pod->object->status.pod_ip, job_key_, send->message);
    }
  }
}

std::vector<EffectBatch::Call> EffectBatch::Preparations() {
  std::vector<Call> calls = PodDeletions(false);
  if (preparation_) {
    const auto* const service =
        parts_.view->FindService({job_.metadata.namespace_name, job_.metadata.name});
    const bool is_ours = service != nullptr && service->object->owner_uid == job_.metadata.uid;
    calls.push_back(is_ours ? ServiceRenewal(*preparation_, service->uid)
                            : ServiceCreation(*preparation_));
    calls.push_back(SecretCreation(*preparation_));
  }
  return calls;
}

// Those of pods that have ended, or of the others.
std::vector<EffectBatch::Call> EffectBatch::PodDeletions(bool have_ended) {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    const auto* const removal = std::get_if<DeletePod>(&effects_[i]);
    if (removal == nullptr) {
      continue;
    }
    const auto* const pod = parts_.view->FindPod({job_.metadata.namespace_name, removal->name});
    const bool has_ended = pod != nullptr && pod->uid == removal->uid && HasEnded(*pod->object);
    if (has_ended == have_ended) {
      calls.push_back(PodDeletion(i, *removal));
    }
  }
  return calls;
}

// A pod that has ended holds nothing: nobody waits until it is gone.
std::vector<EffectBatch::Call> EffectBatch::PodCreations() {
  const Status prepared = preparation_ ? answers_[*preparation_] : OkStatus();
  std::vector<Call> calls = PodDeletions(true);
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    const auto* const creation = std::get_if<CreatePod>(&effects_[i]);
    if (creation == nullptr) {
      continue;
    }
    if (prepared.ok()) {
      calls.push_back(PodCreation(i, *creation));
      continue;
    }
    if (IsRefusal(prepared.error()) || is_service_foreign_) {
      refused_pods_[creation->pod.name] = {prepared.error().message(), false};
    }
    Answer(i, Error(ErrorCode::kAborted, "what the pod needs is not there yet"));
  }
  return calls;
}

std::vector<EffectBatch::Call> EffectBatch::PodInspections() {
  std::vector<Call> calls;
  for (const auto& [effect, name] : existing_pods_) {
    calls.push_back(PodInspection(effect, name));
  }
  return calls;
}

std::vector<EffectBatch::Call> EffectBatch::JobDeletions() {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    if (std::holds_alternative<DeleteJob>(effects_[i])) {
      calls.push_back(JobDeletion(i));
    }
  }
  return calls;
}

EffectBatch::Call EffectBatch::JobDeletion(std::size_t effect) const {
  return {effect,
          kube::Delete(kube::kTrainingJobs,
                       job_.metadata.namespace_name,
                       job_.metadata.name,
                       {job_.metadata.uid, std::nullopt, false}),
          [](kube::CallResult result) -> Status {
            const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
            // Another job has the name: this one is gone, as it was meant to be.
            if (reply.ok() || reply.error().code() == ErrorCode::kStale) {
              return OkStatus();
            }
            return reply.error();
          }};
}

EffectBatch::Call EffectBatch::PodDeletion(std::size_t effect, const DeletePod& removal) {
  const kube::ObjectKey key{job_.metadata.namespace_name, removal.name};
  return {
      effect,
      kube::Delete(kube::kPods, key.namespace_name, key.name, {removal.uid, removal.grace, false}),
      [this, key, uid = removal.uid](kube::CallResult result) -> Status {
        const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
        if (!reply.ok()) {
          const ErrorCode code = reply.error().code();
          if (code != ErrorCode::kNotFound && code != ErrorCode::kStale) {
            return reply.error();
          }
          parts_.view->LearnPodIsGone(key, uid, parts_.news);
          return OkStatus();
        }
        // A reply of another kind says that it is gone, and so will the watch.
        if (const auto pod = kube::DecodePod(reply->body); pod.ok() && pod->key == key) {
          parts_.view->LearnPod(*pod, parts_.news);
        }
        return OkStatus();
      }};
}

// Of that very service: the name may be another's since we looked.
kube::Request EffectBatch::ServiceApplication(const std::string& uid) const {
  Json manifest = ServiceManifest(job_);
  manifest["metadata"]["uid"] = uid;
  return kube::Apply(
      kube::kServices, job_.metadata.namespace_name, job_.metadata.name, DumpJson(manifest));
}

EffectBatch::Call EffectBatch::ServiceRenewal(std::size_t effect, const std::string& uid) {
  return {effect, ServiceApplication(uid), [this](kube::CallResult result) -> Status {
            Status applied = ReadService(std::move(result));
            // 409 says that it has gone, 422 that another has its name (or anything else).
            if (!applied.ok() && (applied.error().code() == ErrorCode::kStale ||
                                  applied.error().code() == ErrorCode::kInvalidArgument)) {
              has_service_ahead_ = true;
              return OkStatus();
            }
            return applied;
          }};
}

EffectBatch::Call EffectBatch::ServiceCreation(std::size_t effect) {
  return {
      effect,
      kube::Create(kube::kServices, job_.metadata.namespace_name, DumpJson(ServiceManifest(job_))),
      [this](kube::CallResult result) -> Status {
        Status created = ReadService(std::move(result));
        if (!created.ok() && created.error().code() == ErrorCode::kAlreadyExists) {
          has_service_ahead_ = true;
          return OkStatus();
        }
        return created;
      }};
}

EffectBatch::Call EffectBatch::SecretCreation(std::size_t effect) {
  return {effect,
          kube::Create(kube::kSecrets,
                       job_.metadata.namespace_name,
                       DumpJson(KeySecretManifest(job_, job_key_))),
          [](kube::CallResult result) -> Status {
            const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
            if (reply.ok() || reply.error().code() == ErrorCode::kAlreadyExists) {
              return OkStatus();
            }
            return reply.error();
          }};
}

EffectBatch::Call EffectBatch::PodCreation(std::size_t effect, const CreatePod& creation) {
  const std::string& name = creation.pod.name;
  return {effect,
          kube::Create(kube::kPods,
                       job_.metadata.namespace_name,
                       DumpJson(PodManifest(job_, creation.pod, settings_))),
          [this, effect, name](kube::CallResult result) -> Status {
            Status created = ReadCreatedPod(name, std::move(result));
            if (!created.ok() && created.error().code() == ErrorCode::kAlreadyExists) {
              existing_pods_.emplace_back(effect, name);
              return OkStatus();
            }
            return created;
          }};
}

EffectBatch::Call EffectBatch::PodInspection(std::size_t effect, const std::string& name) {
  return {
      effect,
      kube::Get(kube::kPods, job_.metadata.namespace_name, name),
      [this, name](kube::CallResult result) { return ReadExistingPod(name, std::move(result)); }};
}

Status EffectBatch::ReadService(kube::CallResult result) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply, kube::RequireSuccess(std::move(result)));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto service, kube::DecodeService(reply.body));
  parts_.view->LearnService(service, parts_.news);
  return OkStatus();
}

Status EffectBatch::ReadCreatedPod(const std::string& name, kube::CallResult result) {
  const auto* const refusal = std::get_if<kube::Reply>(&result);
  const bool is_beyond_cure = refusal != nullptr && IsBeyondCure(*refusal);
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  if (!reply.ok()) {
    if (refusal == nullptr) {  // nothing was heard: it may be there all the same
      parts_.view->DoubtPod({job_.metadata.namespace_name, job_.metadata.name}, name);
    }
    if (IsRefusal(reply.error())) {
      refused_pods_[name] = {reply.error().message(), is_beyond_cure};
    }
    return reply.error();
  }
  created_pods_.push_back(name);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto pod, kube::DecodePod(reply->body));
  parts_.view->LearnPod(pod, parts_.news);
  return OkStatus();
}

Status EffectBatch::ReadExistingPod(const std::string& name, kube::CallResult result) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply, kube::RequireSuccess(std::move(result)));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto pod, kube::DecodePod(reply.body));
  if (pod.object->owner_uid == job_.metadata.uid) {
    created_pods_.push_back(name);
    parts_.view->LearnPod(pod, parts_.news);
    return OkStatus();
  }
  Status taken = YieldOrRefuse(kube::kPods, name, reply.body);
  if (taken.error().code() == ErrorCode::kAlreadyExists) {
    refused_pods_[name] = {taken.error().message(), false};
  }
  return Error(ErrorCode::kUnavailable, taken.error().message());
}

void EffectBatch::SettleService() {
  const std::size_t effect = *preparation_;
  const kube::ObjectKey key{job_.metadata.namespace_name, job_.metadata.name};
  const Result<kube::Reply> reply = kube::RequireSuccess(
      parts_.api->Call(kube::Get(kube::kServices, key.namespace_name, key.name)));
  if (!reply.ok() && reply.error().code() == ErrorCode::kNotFound) {
    parts_.view->LearnServiceIsGone(key, parts_.news);
    Answer(effect, Error(ErrorCode::kUnavailable, "the service has gone: the next pass makes it"));
    return;
  }
  if (!reply.ok()) {
    Answer(effect, reply.error());
    return;
  }
  const auto service = kube::DecodeService(reply->body);
  if (!service.ok()) {
    Answer(effect, service.error());
    return;
  }
  if (service->object->owner_uid == job_.metadata.uid) {
    Answer(effect, ReadService(parts_.api->Call(ServiceApplication(service->uid))));
    return;
  }
  Status taken = YieldOrRefuse(kube::kServices, key.name, reply->body);
  is_service_foreign_ = taken.error().code() == ErrorCode::kAlreadyExists;
  Answer(effect, std::move(taken));
}

// The name is held by an object that is not the job's. What an earlier job of this name has left is
// removed, which takes a moment; anything else is not ours to touch. Never ok.
Status EffectBatch::YieldOrRefuse(const kube::ResourceType& type,
                                  const std::string& name,
                                  const std::string& body) {
  std::string uid;
  if (!IsLeftOver(body, job_, &uid)) {
    return Error(ErrorCode::kAlreadyExists,
                 "the name " + name + " is taken by an object of " + std::string(type.plural) +
                     " that does not belong to this job");
  }
  // Whether that succeeds is seen by the next try.
  parts_.api->Call(
      kube::Delete(type, job_.metadata.namespace_name, name, {uid, std::nullopt, false}));
  return Error(ErrorCode::kUnavailable,
               "the name " + name + " is still held by what an earlier job of this name has left");
}

}  // namespace lockstep::control
