#include "operator/capacity/ask_capacity.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/status/conditions.h"
#include "operator/capacity/ask_text.h"
#include "operator/capacity/capacity_answer.h"
#include "operator/capacity/capacity_request.h"
#include "operator/capacity/native_binding.h"
#include "operator/capacity/show_placeholders.h"
#include "operator/capacity/stored_conditions.h"
#include "operator/kubeclient/kube/capacity_kinds.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {
namespace {

// Conditions of a ProvisioningRequest. Source: autoscaling.x-k8s.io/v1, types.go.
constexpr const char* kFailed = "Failed";
constexpr const char* kBookingExpired = "BookingExpired";
constexpr const char* kCapacityRevoked = "CapacityRevoked";
// The reason where there is no room. Source: the cluster autoscaler, conditions.go.
constexpr const char* kCapacityIsNotFound = "CapacityIsNotFound";

// Whoever has not taken a request up by then does not look at its class. Choice: an autoscaler goes
// through its requests every minute at the latest, one after the other.
constexpr std::chrono::minutes kAnswerTimeout{10};

constexpr const char* kNoPlaceholders =
    "with scheduling.provisioning: Pods, the job needs placeholder pods, but this operator makes "
    "none; set placeholderPods.enabled of the chart (the flag --placeholder-pods)";

constexpr const char* kNoDomains =
    "; Lockstep asks no autoscaler for this job, because autoscalers ignore "
    "scheduling.topology.required and required pod affinity and anti-affinity";

// What a refused gang lacks.
enum class Lack {
  kRoom,
  kNothing,  // it may not start, or others make room for it
  kUnknown,  // no round has looked
};

Lack LackOf(Constraint constraint) {
  switch (constraint) {
    case Constraint::kNodes:
    case Constraint::kNodeSelector:
    case Constraint::kTaint:
    case Constraint::kGpu:
    case Constraint::kMemory:
    case Constraint::kCpu:
    case Constraint::kResource:
    case Constraint::kPods:
    case Constraint::kFragmentation:
    case Constraint::kSearchLimit:
      return Lack::kRoom;
    case Constraint::kRound:
      return Lack::kUnknown;
    case Constraint::kTopology:
    case Constraint::kQueue:
    case Constraint::kQuota:
    case Constraint::kPreemption:
    case Constraint::kPriorityClass:
    case Constraint::kNamespace:
      return Lack::kNothing;
  }
  return Lack::kNothing;
}

// The job with what has been decided of it so far.
TrainingJob AsDecided(const DecisionBuilder& builder) {
  TrainingJob job = builder.job();
  job.status = builder.status();
  return job;
}

bool IsOf(const CapacityObject& object, const OpenAsk& open) {
  return object.is_ours && !object.is_deleting && object.revision == open.revision;
}

// Whether it is asked in the way that the job names now, for the gang that it has now.
bool IsOfGang(const OpenAsk& open, const DecisionBuilder& builder) {
  const bool is_by_pods = builder.spec().scheduling.provisioning == Provisioning::kPods;
  return IsByPods(open) == is_by_pods &&
         open.revision == RevisionOfCapacity(AsDecided(builder), open.ask_class);
}

// Of the open ask.
void CountAsk(Metric metric, std::string_view answer, DecisionBuilder* builder) {
  builder->Count(metric,
                 std::string(answer),
                 QueueOf(builder->spec(), builder->status()),
                 std::string(NameOf(kProvisioningClassNames,
                                    builder->status().provisioning->open->ask_class)));
}

void CountAnswer(CapacityAnswer answer, DecisionBuilder* builder) {
  CountAsk(Metric::kCapacityAnswers, NameOf(kCapacityAnswerNames, answer), builder);
}

void Open(ProvisioningClass ask_class, DecisionBuilder* builder) {
  CapacityAsk* const ask = &*builder->mutable_external()->provisioning;
  ++ask->count;
  ask->retry_at.reset();
  ask->open =
      OpenAsk{ask_class, RevisionOfCapacity(AsDecided(*builder), ask_class), builder->now(), false};
  CountAsk(Metric::kCapacityAsks, "", builder);
  if (IsByPods(*ask->open)) {  // of a request it is told when it is there
    builder->Say(EventType::kNormal,
                 "CapacityAsked",
                 "Lockstep asks autoscalers for nodes by " + RequestText(*ask, *builder));
  }
}

// The gang may not ask now, though nothing is wrong with the ask.
void TakeBack(const std::string& why, DecisionBuilder* builder) {
  CapacityAsk* const ask = &*builder->mutable_external()->provisioning;
  if (ask->open->has_capacity) {
    builder->Say(EventType::kWarning,
                 "CapacityNotProvisioned",
                 RequestText(*ask, *builder) +
                     " found room, but Lockstep withdrew the request, because something else keeps "
                     "the gang from starting: " +
                     why);
  }
  CountAnswer(CapacityAnswer::kTakenBack, builder);
  ask->open.reset();
  ask->retry_at = builder->now() + kRollbackDelayMin;  // turns may change with every round
}

// The ask has come to nothing. The next one pauses, longer each time in a row.
void Close(CapacityAnswer answer, const std::string& why, DecisionBuilder* builder) {
  CountAnswer(answer, builder);
  CapacityAsk* const ask = &*builder->mutable_external()->provisioning;
  ask->failure = RequestText(*ask, *builder) + ": " + why;
  ask->retry_at = builder->now() + RollbackDelay(++ask->failures);
  ask->open.reset();
  builder->Say(EventType::kWarning, "CapacityNotProvisioned", ask->failure);
}

// Whether a check says that there is no room. Where the autoscaler does not know noRetry, it goes
// on to look.
bool HasFoundNothing(const Json& conditions) {
  return TextIn(conditions, kFailed, "reason") == kCapacityIsNotFound ||
         TextIn(conditions, kProvisioned, "reason") == kCapacityIsNotFound;
}

// What the autoscaler has said of the open ask becomes its state.
void HeedAnswer(const Json& conditions, DecisionBuilder* builder) {
  OpenAsk* const open = &*builder->mutable_external()->provisioning->open;
  for (const char* const end : {kBookingExpired, kCapacityRevoked}) {
    if (IsTrueIn(conditions, end)) {
      Close(CapacityAnswer::kRevoked, MessageIn(conditions, end), builder);
      return;
    }
  }
  if (open->ask_class == ProvisioningClass::kCheckCapacity && HasFoundNothing(conditions)) {
    CountAnswer(CapacityAnswer::kNoRoom, builder);
    Open(ProvisioningClass::kAtomicScaleUp, builder);
    return;
  }
  if (IsTrueIn(conditions, kFailed)) {
    Close(CapacityAnswer::kFailed, MessageIn(conditions, kFailed), builder);
    return;
  }
  const bool has_capacity = IsTrueIn(conditions, kProvisioned);
  if (has_capacity && !open->has_capacity) {
    CountAnswer(CapacityAnswer::kRoom, builder);
    builder->Say(EventType::kNormal,
                 "CapacityProvisioned",
                 RequestText(*builder->status().provisioning, *builder) + ": " +
                     MessageIn(conditions, kProvisioned));
  }
  if (!open->answered_at.has_value() || (has_capacity && !open->has_capacity)) {
    open->answered_at = builder->now();
  }
  open->has_capacity = has_capacity;
  const WallTime deadline = *open->answered_at + kRoomTimeout;
  if (builder->now() < deadline) {
    builder->WakeAt(deadline);
    return;
  }
  const std::string said = MessageIn(conditions, kProvisioned);
  Close(CapacityAnswer::kNoNodes,
        "the gang found no room within " +
            std::to_string(std::chrono::seconds(kRoomTimeout).count()) +
            " s after the autoscaler's answer: " +
            (said.empty() ? MessageIn(conditions, kAccepted) : said),
        builder);
}

// Nobody has said anything, or the request is not even there: what was answered to one that is gone
// is void.
void AwaitAnswer(DecisionBuilder* builder) {
  OpenAsk* const open = &*builder->mutable_external()->provisioning->open;
  if (open->answered_at.has_value()) {
    open->has_capacity = false;
    open->answered_at.reset();
    open->since = builder->now();
  }
  const WallTime deadline = open->since + kAnswerTimeout;
  if (builder->now() < deadline) {
    builder->WakeAt(deadline);
    return;
  }
  if (const std::string obstacle = ObstacleOf(*builder); !obstacle.empty()) {
    Close(CapacityAnswer::kNotMade, obstacle, builder);
    return;
  }
  Close(CapacityAnswer::kNoAnswer,
        "no autoscaler accepted the request within " +
            std::to_string(std::chrono::seconds(kAnswerTimeout).count()) + " s",
        builder);
}

// Whatever is answered to objects that are not as they were made is not answered to this gang.
// Precondition: an ask by a request is open. Returns whether it was closed.
bool CloseIfEdited(DecisionBuilder* builder) {
  const std::string difference =
      WhyNotAsAsked(AsDecided(*builder), builder->observed().provisioning);
  if (!difference.empty()) {
    Close(CapacityAnswer::kEdited, difference, builder);
  }
  return !difference.empty();
}

void GoOn(DecisionBuilder* builder) {
  CapacityAsk* const ask = &*builder->mutable_external()->provisioning;
  if (ask->open.has_value() && !IsOfGang(*ask->open, *builder)) {
    ask->open.reset();
  }
  if (ask->open.has_value() && IsByPods(*ask->open)) {
    const std::string why =
        WhyPlaceholdersFail(AsDecided(*builder), builder->observed().provisioning);
    if (!why.empty()) {
      Close(CapacityAnswer::kNotMade, why, builder);
    }
  } else if (ask->open.has_value() && !CloseIfEdited(builder)) {
    const CapacityObject* const request = OpenRequest(*builder);
    const bool is_answered = request != nullptr && IsOf(*request, *ask->open) &&
                             request->conditions.is_array() && !request->conditions.empty();
    if (is_answered) {
      HeedAnswer(request->conditions, builder);
    } else {
      AwaitAnswer(builder);
    }
  }
  if (ask->open.has_value()) {
    return;
  }
  if (ask->retry_at.has_value() && builder->now() < *ask->retry_at) {
    builder->WakeAt(*ask->retry_at);
    return;
  }
  Open(builder->spec().scheduling.provisioning == Provisioning::kPods
           ? ProvisioningClass::kPlaceholderPods
           : ProvisioningClass::kCheckCapacity,
       builder);
}

// Whether the open ask is still wanted.
bool IsWanted(const DecisionBuilder& builder) {
  const TrainingJobStatus& status = builder.status();
  const OpenAsk& open = *status.provisioning->open;
  if (!MayAskForCapacity(builder.spec()) || HasEnded(status) || builder.spec().run_policy.suspend) {
    return false;
  }
  if (!status.placement.empty()) {
    return open.has_capacity && !status.has_run;  // its pods use it until they run
  }
  const bool awaits_kueue =
      !status.kueue.has_value() && !KueueQueueOf(builder.job().metadata).empty();
  return !awaits_kueue && !LacksPodGroups(builder) && IsOfGang(open, builder);
}

void RemoveLeftOver(const std::vector<CapacityObject>& objects,
                    const kube::ResourceType& resource,
                    const std::set<std::string>& wanted,
                    DecisionBuilder* builder) {
  const std::optional<CapacityAsk>& ask = builder->status().provisioning;
  for (const CapacityObject& object : objects) {
    const bool is_wanted = wanted.count(object.name) > 0 && object.revision == ask->open->revision;
    if (object.is_ours && !object.is_deleting && !is_wanted) {
      builder->Do(WriteObject{WriteObject::Kind::kDelete, resource, object.name, object.uid, ""});
    }
  }
}

// The request is made when all that it names is seen: an autoscaler that finds one missing fails
// it.
void MakeRequest(DecisionBuilder* builder) {
  const TrainingJob job = AsDecided(*builder);
  const CapacityAsk& ask = *job.status.provisioning;
  const ProvisioningSight& sight = builder->observed().provisioning;
  bool are_complete = true;
  for (const RoleSpec& role : job.spec.roles) {
    if (role.replicas == 0) {
      continue;
    }
    const std::string name = CapacityTemplateName(job.metadata, ask.count, role.name);
    const CapacityObject* const found = FindNamed(sight.templates, name);
    are_complete = are_complete && found != nullptr && IsOf(*found, *ask.open);
    if (found == nullptr) {
      builder->Do(
          WriteObject{WriteObject::Kind::kCreate,
                      kube::kPodTemplates,
                      name,
                      "",
                      DumpJson(CapacityTemplateManifest(job, role, builder->observed().settings))});
    }
  }
  if (are_complete && OpenRequest(*builder) == nullptr) {
    builder->Do(WriteObject{WriteObject::Kind::kCreate,
                            kube::kProvisioningRequests,
                            CapacityRequestName(job.metadata, ask.count),
                            "",
                            DumpJson(CapacityRequestManifest(job))});
  }
}

// Makes what is missing of the open ask, and removes all objects that are not of it.
void SettleRequests(DecisionBuilder* builder) {
  const TrainingJobStatus& status = builder->status();
  const std::optional<CapacityAsk>& ask = status.provisioning;
  const Metadata& job = builder->job().metadata;
  std::set<std::string> requests;
  std::set<std::string> templates;
  if (ask.has_value() && ask->open.has_value() && !IsByPods(*ask->open)) {
    requests.insert(CapacityRequestName(job, ask->count));
    for (const RoleSpec& role : builder->spec().roles) {
      templates.insert(CapacityTemplateName(job, ask->count, role.name));
    }
    if (status.placement.empty()) {
      MakeRequest(builder);
    }
  }
  const ProvisioningSight& sight = builder->observed().provisioning;
  RemoveLeftOver(sight.requests, kube::kProvisioningRequests, requests, builder);
  RemoveLeftOver(sight.templates, kube::kPodTemplates, templates, builder);
}

void SettlePlaceholders(DecisionBuilder* builder) {
  const std::optional<CapacityAsk>& ask = builder->status().provisioning;
  std::set<std::string> wanted;
  if (ask.has_value() && ask->open.has_value() && IsByPods(*ask->open)) {
    const TrainingJob job = AsDecided(*builder);
    wanted = PlaceholderNames(job);
    ShowPlaceholders(job, builder);
  }
  RemoveLeftOver(builder->observed().provisioning.placeholders, kube::kPods, wanted, builder);
}

// What the operator lacks to ask in the way that the job names; null: nothing.
const char* WhyNotFollowed(const DecisionBuilder& builder) {
  const ProvisioningSight& sight = builder.observed().provisioning;
  if (builder.spec().scheduling.provisioning == Provisioning::kPods) {
    return sight.are_placeholders_followed ? nullptr : kNoPlaceholders;
  }
  return sight.is_followed ? nullptr : kNotFollowed;
}

}  // namespace

std::string AskForCapacity(const Unschedulable& refusal, DecisionBuilder* builder) {
  const Lack lack = LackOf(refusal.constraint);
  if (builder->spec().scheduling.provisioning == Provisioning::kNone ||
      builder->observed().is_one_machine || lack == Lack::kUnknown) {
    return "";
  }
  if (!MayAskForCapacity(builder->spec())) {
    return kNoDomains;  // what a manifest of before has asked for goes with TellAutoscaler
  }
  std::optional<CapacityAsk>& ask = builder->mutable_external()->provisioning;
  const bool may_not_ask = lack != Lack::kRoom || !refusal.not_asked.empty();
  if (may_not_ask && ask.has_value() && ask->open.has_value()) {
    TakeBack(lack == Lack::kRoom ? refusal.not_asked : refusal.shortfall, builder);
  }
  if (lack != Lack::kRoom) {
    return "";
  }
  if (const char* const why = WhyNotFollowed(*builder)) {
    WarnOnce("ProvisioningNotFollowed", why, builder);
    return std::string("; ") + why;
  }
  if (may_not_ask) {
    return "; " + refusal.not_asked;
  }
  if (!ask.has_value()) {
    ask.emplace();
  }
  GoOn(builder);
  SayWhatBecameOfIt(builder);
  return "; " + DescribeAsk(*builder);
}

std::string WhatWasAsked(const Unschedulable& refusal, const DecisionBuilder& builder) {
  if (builder.spec().scheduling.provisioning == Provisioning::kNone ||
      LackOf(refusal.constraint) == Lack::kNothing) {
    return "";
  }
  if (!MayAskForCapacity(builder.spec())) {
    return kNoDomains;
  }
  if (const char* const why = WhyNotFollowed(builder)) {
    return std::string("; ") + why;
  }
  if (!refusal.not_asked.empty()) {
    return "; " + refusal.not_asked;
  }
  return builder.status().provisioning.has_value() ? DescribePastAsk(builder) : "";
}

void ForgetFailedAsks(ExternalStatus* status) {
  if (status->provisioning.has_value()) {
    status->provisioning->failures = 0;
    status->provisioning->retry_at.reset();
    status->provisioning->failure.clear();
  }
}

void TellAutoscaler(DecisionBuilder* builder) {
  const TrainingJobStatus& status = builder->status();
  std::optional<CapacityAsk>& ask = builder->mutable_external()->provisioning;
  if (ask.has_value() && ask->open.has_value() && !IsWanted(*builder)) {
    ask->open.reset();
  }
  // Of a gang that is not placed for now, as it pauses, nobody else looks.
  if (ask.has_value() && ask->open.has_value() && !IsByPods(*ask->open) &&
      status.placement.empty()) {
    CloseIfEdited(builder);
  }
  if (!status.placement.empty() && status.has_run) {
    ForgetFailedAsks(builder->mutable_external());
  }
  if (builder->observed().provisioning.is_followed) {
    SettleRequests(builder);
  }
  if (builder->observed().provisioning.are_placeholders_followed) {
    SettlePlaceholders(builder);
  }
}

}  // namespace lockstep::control
