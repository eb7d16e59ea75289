#include "operator/controller/write/effect_batch.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "common/json/json.h"
#include "operator/controller/errand/beyond_cure.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/left_over.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/job_objects.h"
#include "operator/reconcile/pods/pod_manifest.h"
#include "operator/reconcile/pods/template_path.h"

namespace lockstep::control {
namespace {

// `what`: "pod mnist-worker-0"; `owner_uid`: of that; empty: it has none.
Error NameIsTaken(const std::string& what, const std::string& owner_uid) {
  return Error(ErrorCode::kAlreadyExists,
               "the name is taken by " + what +
                   (owner_uid.empty() ? ", which has no owner, perhaps because a job was deleted "
                                        "with --cascade=orphan; Lockstep leaves it alone"
                                      : ", which does not belong to this job"));
}

Error NameIsHeld(const std::string& name) {
  return Error(ErrorCode::kUnavailable,
               "the name " + name + " still belongs to an object of an earlier job of this name");
}

}  // namespace

EffectBatch::EffectBatch(const EffectBatchParts& parts,
                         const TrainingJob& job,
                         std::string job_key,
                         const std::vector<Effect>& effects)
    : parts_(parts),
      job_(job),
      key_{job_.metadata.namespace_name, job_.metadata.name},
      job_key_(std::move(job_key)),
      effects_(effects),
      settings_(*parts.settings),
      answers_(effects_.size(), OkStatus()) {
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    if (std::holds_alternative<PrepareJob>(effects_[i])) {
      preparation_ = i;
    }
  }
}

std::vector<ErrandCall> EffectBatch::Next() {
  lists_seen_ = parts_.view->list_count();
  std::vector<ErrandCall> calls = std::exchange(follow_ups_, {});
  while (calls.empty() && phases_begun_ < std::size(kEffectPhases)) {
    const EffectPhase phase = kEffectPhases[phases_begun_++];
    calls = CallsOf(phase);
    if (phase == EffectPhase::kMakeRoom && MakesPods()) {
      LearnLevel(&calls);
    }
  }
  return calls;
}

std::vector<ErrandCall> EffectBatch::CallsOf(EffectPhase phase) {
  std::vector<ErrandCall> calls;
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    const Effect& effect = effects_[i];
    const auto* const removal = std::get_if<DeletePod>(&effect);
    if (PhaseOf(effect, removal != nullptr && HasEndedPod(*removal)) != phase) {
      continue;
    }
    if (removal != nullptr) {
      calls.push_back(PodDeletion(i, *removal));
    } else if (const auto* const send = std::get_if<SendControl>(&effect)) {
      Tell(*send);
    } else if (std::holds_alternative<PrepareJob>(effect)) {
      Prepare(i, &calls);
    } else if (std::holds_alternative<RenewKey>(effect)) {
      calls.push_back(SecretCreation(i));
    } else if (const auto* const creation = std::get_if<CreatePod>(&effect)) {
      Create(i, *creation, &calls);
    } else if (const auto* const write = std::get_if<WriteObject>(&effect)) {
      calls.push_back(ObjectWrite(i, *write));
    } else {
      calls.push_back(JobDeletion(i));
    }
  }
  return calls;
}

ErrandCall EffectBatch::CallFor(std::size_t effect, Make make, Read read) {
  return {[make = std::move(make)] {
            std::optional<kube::Request> request = make();
            if (request.has_value()) {
              request->may_outlast_lease = request->is_mutating();
            }
            return request;
          },
          [this, effect, read = std::move(read)](kube::CallResult result) {
            has_server_failed_ =
                has_server_failed_ || (effect == preparation_ && HasServerFailed(result));
            Answer(effect, read(std::move(result)));
          }};
}

// The first failure of an effect is its answer.
void EffectBatch::Answer(std::size_t effect, Status status) {
  if (answers_[effect].ok()) {
    answers_[effect] = std::move(status);
  }
}

bool EffectBatch::HasEndedPod(const DeletePod& removal) const {
  const auto* const pod = parts_.view->FindPod({key_.namespace_name, removal.name});
  return pod != nullptr && pod->uid == removal.uid && HasEnded(*pod->object);
}

void EffectBatch::Tell(const SendControl& send) {
  const auto* const pod = parts_.view->FindPod({key_.namespace_name, send.pod});
  if (pod != nullptr && pod->object->status.phase == kube::PodPhase::kRunning) {
    parts_.control->Send(pod->object->status.pod_ip, job_key_, send.message);
  }
}

void EffectBatch::Prepare(std::size_t effect, std::vector<ErrandCall>* calls) {
  const auto* const service = parts_.view->FindService({key_.namespace_name, key_.name});
  const bool is_ours = service != nullptr && service->object->owner_uid == job_.metadata.uid;
  calls->push_back(is_ours ? ServiceRenewal(effect, service->uid) : ServiceCreation(effect));
  calls->push_back(SecretCreation(effect));
}

void EffectBatch::Create(std::size_t effect,
                         const CreatePod& creation,
                         std::vector<ErrandCall>* calls) {
  const Status prepared = preparation_ ? answers_[*preparation_] : OkStatus();
  if (prepared.ok()) {
    calls->push_back(PodCreation(effect, creation.pod));
    return;
  }
  if (IsRefusal(prepared.error()) || is_service_foreign_) {
    parts_.notes->NoteRefusal(key_, creation.pod.name, prepared.error().message(), false);
  } else if (has_server_failed_) {
    parts_.notes->NoteFailure(key_, creation.pod.name, prepared.error().message());
  }
  Answer(effect,
         Error(ErrorCode::kAborted,
               "the Service or the Secret that the pod needs does not exist yet"));
}

bool EffectBatch::MakesPods() const {
  return std::any_of(effects_.begin(), effects_.end(), [](const Effect& effect) {
    return std::holds_alternative<CreatePod>(effect);
  });
}

// Whether the job is still what was decided on. A gang behind a slow webhook is minutes on its way.
bool EffectBatch::IsWanted() const {
  const StoredJob* const stored = parts_.view->FindJob(key_);
  return stored != nullptr && !stored->is_deleting &&
         stored->job.metadata.uid == job_.metadata.uid &&
         stored->job.metadata.generation == job_.metadata.generation;
}

// What the pods have to look like there.
void EffectBatch::LearnLevel(std::vector<ErrandCall>* calls) {
  if (const auto level = parts_.levels->Of(key_.namespace_name, parts_.now)) {
    settings_.pod_security = *level;
    return;
  }
  calls->push_back({[this] { return kube::Get(kube::kNamespaces, "", key_.namespace_name); },
                    [this](kube::CallResult result) {
                      settings_.pod_security =
                          parts_.levels->Learn(key_.namespace_name, std::move(result), parts_.now);
                    }});
}

ErrandCall EffectBatch::JobDeletion(std::size_t effect) {
  return CallFor(
      effect,
      [this] {
        return kube::Delete(kube::kTrainingJobs,
                            key_.namespace_name,
                            key_.name,
                            {job_.metadata.uid, std::nullopt, false});
      },
      [](kube::CallResult result) -> Status {
        const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
        // Another job has the name: this one is gone, as it was meant to be.
        if (reply.ok() || reply.error().code() == ErrorCode::kStale) {
          return OkStatus();
        }
        return reply.error();
      });
}

// Nothing is learnt from the reply: the watch tells. A name that is taken is looked at: the object
// may be the job's own, of which the watch has not told yet.
ErrandCall EffectBatch::ObjectWrite(std::size_t effect, const WriteObject& write) {
  return CallFor(
      effect,
      [this, effect, &write]() -> std::optional<kube::Request> {  // of effects_
        if (write.kind == WriteObject::Kind::kCreate && !IsWanted()) {
          Answer(effect,
                 Error(ErrorCode::kAborted,
                       "the job was deleted and created again after this was decided"));
          return std::nullopt;
        }
        return RequestOf(key_.namespace_name, write);
      },
      [this, effect, &write](kube::CallResult result) -> Status {
        const std::optional<SpoiltPod> spoilt = FindSpoilt(write, result);
        const Status answer = AnswerTo(write, std::move(result));
        if (!answer.ok() && answer.error().code() == ErrorCode::kAlreadyExists) {
          follow_ups_.push_back(ObjectInspection(effect, write));
          return OkStatus();
        }
        return ReadObject(effect, write, answer, spoilt);
      });
}

ErrandCall EffectBatch::ObjectInspection(std::size_t effect, const WriteObject& write) {
  return CallFor(
      effect,
      [this, &write] { return kube::Get(write.resource, key_.namespace_name, write.name); },
      [this, effect, &write](kube::CallResult result) -> Status {
        const std::optional<SpoiltPod> spoilt = FindSpoilt(write, result);
        return ReadObject(
            effect, write, OwnedBy(job_.metadata.uid, write, std::move(result)), spoilt);
      });
}

// A pod that no watch shows is told of when it has gone: until then the next turn finds it again.
Status EffectBatch::ReadObject(std::size_t effect,
                               const WriteObject& write,
                               const Status& answer,
                               const std::optional<SpoiltPod>& spoilt) {
  if (!answer.ok() || !spoilt.has_value()) {
    NoteWrite(key_, write, answer, parts_.notes);
    return answer;
  }
  follow_ups_.push_back(CallFor(
      effect,
      [this, removal = spoilt->removal] { return RequestOf(key_.namespace_name, removal); },
      [this, &write, found = *spoilt](kube::CallResult result) -> Status {
        LOCKSTEP_RETURN_IF_ERROR(AnswerTo(found.removal, std::move(result)));
        NoteWrite(key_, write, found.trouble, parts_.notes);
        return found.trouble;
      }));
  return OkStatus();
}

ErrandCall EffectBatch::PodDeletion(std::size_t effect, const DeletePod& removal) {
  const kube::ObjectKey key{key_.namespace_name, removal.name};
  return CallFor(
      effect,
      [key, removal] {
        return kube::Delete(
            kube::kPods, key.namespace_name, key.name, {removal.uid, removal.grace, false});
      },
      [this, key, uid = removal.uid](kube::CallResult result) -> Status {
        const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
        if (!reply.ok()) {
          const ErrorCode code = reply.error().code();
          if (code != ErrorCode::kNotFound && code != ErrorCode::kStale) {
            return reply.error();
          }
          parts_.view->LearnPodIsGone(key, uid, &parts_.notes->news);
          return OkStatus();
        }
        // A reply of another kind says that it is gone, and so will the watch.
        if (const auto pod = kube::DecodePod(reply->body); pod.ok() && pod->key == key) {
          LearnPod(*pod);
        }
        return OkStatus();
      });
}

// Of that very service: the name may be another's since we looked.
ErrandCall EffectBatch::ServiceApplication(std::size_t effect, const std::string& uid, Read read) {
  return CallFor(
      effect,
      [this, uid] {
        Json manifest = ServiceManifest(job_);
        manifest["metadata"]["uid"] = uid;
        return kube::Apply(kube::kServices, key_.namespace_name, key_.name, DumpJson(manifest));
      },
      std::move(read));
}

ErrandCall EffectBatch::ServiceRenewal(std::size_t effect, const std::string& uid) {
  return ServiceApplication(effect, uid, [this, effect](kube::CallResult result) -> Status {
    Status applied = ReadService(std::move(result));
    // 409 says that it has gone, 422 that another has its name (or anything else).
    if (!applied.ok() && (applied.error().code() == ErrorCode::kStale ||
                          applied.error().code() == ErrorCode::kInvalidArgument)) {
      follow_ups_.push_back(ServiceInspection(effect));
      return OkStatus();
    }
    return applied;
  });
}

ErrandCall EffectBatch::ServiceCreation(std::size_t effect) {
  return CallFor(
      effect,
      [this] {
        return kube::Create(kube::kServices, key_.namespace_name, DumpJson(ServiceManifest(job_)));
      },
      [this, effect](kube::CallResult result) -> Status {
        Status created = ReadService(std::move(result));
        if (!created.ok() && created.error().code() == ErrorCode::kAlreadyExists) {
          follow_ups_.push_back(ServiceInspection(effect));
          return OkStatus();
        }
        return created;
      });
}

ErrandCall EffectBatch::ServiceInspection(std::size_t effect) {
  const auto* const known = parts_.view->FindService({key_.namespace_name, key_.name});
  return CallFor(
      effect,
      [this] { return kube::Get(kube::kServices, key_.namespace_name, key_.name); },
      [this, effect, known_uid = known == nullptr ? std::string() : known->uid](
          kube::CallResult result) {
        return ReadServiceInTheWay(effect, known_uid, std::move(result));
      });
}

ErrandCall EffectBatch::SecretCreation(std::size_t effect) {
  return CallFor(
      effect,
      [this] {
        return kube::Create(
            kube::kSecrets, key_.namespace_name, DumpJson(KeySecretManifest(job_, job_key_)));
      },
      [](kube::CallResult result) -> Status {
        const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
        if (reply.ok() || reply.error().code() == ErrorCode::kAlreadyExists) {
          return OkStatus();
        }
        return reply.error();
      });
}

ErrandCall EffectBatch::PodCreation(std::size_t effect, const kube::Pod& pod) {
  return CallFor(
      effect,
      [this, effect, &pod]() -> std::optional<kube::Request> {  // of effects_
        if (!IsWanted()) {
          Answer(effect,
                 Error(ErrorCode::kAborted,
                       "the job was deleted and created again after this was decided"));
          return std::nullopt;
        }
        const std::string body = DumpJson(PodManifest(job_, pod, settings_));
        return kube::Create(kube::kPods, key_.namespace_name, body);
      },
      [this, effect, &pod, name = pod.name](kube::CallResult result) -> Status {
        Status created = ReadCreatedPod(pod, std::move(result));
        if (!created.ok() && created.error().code() == ErrorCode::kAlreadyExists) {
          follow_ups_.push_back(PodInspection(effect, name));
          return OkStatus();
        }
        return created;
      });
}

ErrandCall EffectBatch::PodInspection(std::size_t effect, const std::string& name) {
  return CallFor(
      effect,
      [this, name] { return kube::Get(kube::kPods, key_.namespace_name, name); },
      [this, effect, name](kube::CallResult result) {
        return ReadExistingPod(effect, name, std::move(result));
      });
}

Status EffectBatch::ReadService(kube::CallResult result) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply, kube::RequireSuccess(std::move(result)));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto service, kube::DecodeService(reply.body));
  if (parts_.view->list_count() == lists_seen_) {  // else the watch tells
    parts_.view->LearnService(service, &parts_.notes->news);
  }
  return OkStatus();
}

Status EffectBatch::ReadCreatedPod(const kube::Pod& made, kube::CallResult result) {
  const std::string& name = made.name;
  const auto* const refusal = std::get_if<kube::Reply>(&result);
  const bool is_unheard = kube::MayHaveHappened(result);
  const bool has_failed = HasServerFailed(result);
  const bool is_beyond_cure = refusal != nullptr && IsBeyondCure(*refusal);
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  if (!reply.ok()) {
    if (is_unheard) {  // it may be there all the same
      parts_.view->DoubtPod(key_, name);
    }
    if (IsRefusal(reply.error())) {
      const auto identity = ParsePodLabels(made.labels);
      parts_.notes->NoteRefusal(key_,
                                name,
                                is_beyond_cure && identity.has_value()
                                    ? InTermsOfTemplate(reply.error().message(),
                                                        PodManifest(job_, made, settings_),
                                                        job_,
                                                        identity->task.role)
                                    : reply.error().message(),
                                is_beyond_cure);
    } else if (has_failed) {
      parts_.notes->NoteFailure(key_, name, reply.error().message());
    }
    return reply.error();
  }
  parts_.notes->NoteCreated(key_, name);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto pod, kube::DecodePod(reply->body));
  LearnPod(pod);
  return OkStatus();
}

Status EffectBatch::ReadExistingPod(std::size_t effect,
                                    const std::string& name,
                                    kube::CallResult result) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply, kube::RequireSuccess(std::move(result)));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto pod, kube::DecodePod(reply.body));
  if (pod.object->owner_uid == job_.metadata.uid) {
    parts_.notes->NoteCreated(key_, name);
    LearnPod(pod);
    return OkStatus();
  }
  if (!IsLeftOver(*pod.object, job_.metadata)) {
    const Error taken = NameIsTaken("pod " + name, pod.object->owner_uid);
    parts_.notes->NoteRefusal(key_, name, taken.message(), false);
    return Error(ErrorCode::kUnavailable, taken.message());
  }
  if (pod.object->is_deleting && !pod.object->finalizers.empty()) {
    parts_.notes->NoteRefusal(
        key_, name, "the name is taken by " + DescribeLeftOver(*pod.object), false);
  }
  if (!pod.object->is_deleting) {  // whether that succeeds is seen by the next try
    follow_ups_.push_back(CallFor(
        effect,
        [this, name, uid = pod.uid] {
          return kube::Delete(kube::kPods, key_.namespace_name, name, {uid, std::nullopt, false});
        },
        [](const kube::CallResult&) { return OkStatus(); }));
  }
  return NameIsHeld(name);
}

// A service that was there: ours, a forgotten one of an earlier job, or somebody's.
// `known_uid`: of the one that was known when the server was asked; empty: none was.
Status EffectBatch::ReadServiceInTheWay(std::size_t effect,
                                        const std::string& known_uid,
                                        kube::CallResult result) {
  const Result<kube::Reply> reply = kube::RequireSuccess(std::move(result));
  if (!reply.ok() && reply.error().code() == ErrorCode::kNotFound) {
    parts_.view->LearnServiceIsGone(
        {key_.namespace_name, key_.name}, known_uid, &parts_.notes->news);
    return Error(ErrorCode::kUnavailable, "the Service was deleted; the operator creates it again");
  }
  if (!reply.ok()) {
    return reply.error();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto service, kube::DecodeService(reply->body));
  if (service.object->owner_uid == job_.metadata.uid) {
    follow_ups_.push_back(ServiceApplication(effect, service.uid, [this](kube::CallResult applied) {
      return ReadService(std::move(applied));
    }));
    return OkStatus();
  }
  if (IsLeftOver(*service.object, job_.metadata)) {
    return NameIsHeld(key_.name);  // garbage collection takes a while
  }
  is_service_foreign_ = true;
  parts_.notes->foreign_services.insert(key_);
  return Error(ErrorCode::kAlreadyExists,
               "the job's Service cannot be created: " +
                   NameIsTaken("service " + key_.name, service.object->owner_uid).message());
}

void EffectBatch::LearnPod(const kube::Item<kube::Pod>& pod) {
  parts_.view->LearnPod(pod, &parts_.notes->news);
  if (parts_.view->list_count() != lists_seen_) {
    parts_.view->DoubtPod(key_, pod.key.name);
  }
}

}  // namespace lockstep::control
