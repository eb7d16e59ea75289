#include "operator/capacity/ask_text.h"

#include <algorithm>
#include <cstddef>

#include "common/base/plural.h"
#include "common/base/rfc3339.h"
#include "common/contract/text/text.h"
#include "operator/api/fields/pod_label_names.h"
#include "operator/api/status/conditions.h"
#include "operator/capacity/capacity_difference.h"
#include "operator/capacity/capacity_request.h"
#include "operator/capacity/stored_conditions.h"

namespace lockstep::control {
namespace {

// Of what an autoscaler says. Choice: whoever reads it in a status has read enough.
constexpr std::size_t kAnswerBytesMax = 512;

bool HasSaid(const std::string& words, const DecisionBuilder& builder) {
  const Condition* const before = FindCondition(builder.status(), ConditionType::kScheduled);
  return before != nullptr && before->message.find(words) != std::string::npos;
}

// What the autoscaler has answered so far, and whether that is a yes: its own words may be "ok".
// Empty: nothing.
std::string AnswerIn(const Json& conditions, ProvisioningClass ask_class) {
  if (const std::string said = MessageIn(conditions, kProvisioned); !said.empty()) {
    if (!IsTrueIn(conditions, kProvisioned)) {
      return "the autoscaler has found no room yet: " + said;
    }
    return (ask_class == ProvisioningClass::kCheckCapacity
                ? "the autoscaler says that there is room: "
                : "the autoscaler says that nodes are on their way: ") +
           said;
  }
  if (const std::string said = MessageIn(conditions, kAccepted); !said.empty()) {
    return (IsTrueIn(conditions, kAccepted) ? "an autoscaler has accepted the request: "
                                            : "no autoscaler has accepted the request: ") +
           said;
  }
  return "";
}

// "; result of the last request: ..."; empty: none has come to nothing.
std::string LastAnswer(const CapacityAsk& ask) {
  return ask.failure.empty() ? "" : "; result of the last request: " + ask.failure;
}

}  // namespace

bool IsByPods(const OpenAsk& ask) {
  return ask.ask_class == ProvisioningClass::kPlaceholderPods;
}

const CapacityObject* FindNamed(const std::vector<CapacityObject>& objects,
                                const std::string& name) {
  const auto found = std::find_if(
      objects.begin(), objects.end(), [&](const CapacityObject& one) { return one.name == name; });
  return found == objects.end() ? nullptr : &*found;
}

const CapacityObject* OpenRequest(const DecisionBuilder& builder) {
  const CapacityAsk& ask = *builder.status().provisioning;
  return FindNamed(builder.observed().provisioning.requests,
                   CapacityRequestName(builder.job().metadata, ask.count));
}

std::string MessageIn(const Json& conditions, const char* type) {
  const std::string message = TextIn(conditions, type, "message");
  return CutText(message.empty() ? TextIn(conditions, type, "reason") : message, kAnswerBytesMax);
}

std::string RequestText(const CapacityAsk& ask, const DecisionBuilder& builder) {
  if (IsByPods(*ask.open)) {
    int64_t count = 0;
    for (const RoleSpec& role : builder.spec().roles) {
      count += role.replicas;
    }
    return Plural(count, "placeholder pod") + " (label " + label::kPlaceholderOf + "=" +
           builder.job().metadata.name + ")";
  }
  return "ProvisioningRequest " + CapacityRequestName(builder.job().metadata, ask.count) + " (" +
         std::string(NameOf(kProvisioningClassNames, ask.open->ask_class)) + ")";
}

std::string ObstacleOf(const DecisionBuilder& builder) {
  const CapacityAsk& ask = *builder.status().provisioning;
  const ProvisioningSight& sight = builder.observed().provisioning;
  const auto obstacle = [&](const std::vector<CapacityObject>& objects,
                            const std::string& kind,
                            const std::string& name) -> std::string {
    const CapacityObject* const found = FindNamed(objects, name);
    if (found != nullptr) {
      return found->is_ours ? "" : kind + " " + name + " does not belong to this job";
    }
    const auto refusal = sight.refusals.find(name);
    if (refusal == sight.refusals.end()) {
      return "";
    }
    return refusal->second == kKindIsUnknown
               ? kNotFollowed
               : kind + " " + name + " was refused: " + refusal->second;
  };
  for (const RoleSpec& role : builder.spec().roles) {
    std::string why = obstacle(sight.templates,
                               "PodTemplate",
                               CapacityTemplateName(builder.job().metadata, ask.count, role.name));
    if (!why.empty()) {
      return why;
    }
  }
  return obstacle(sight.requests,
                  "ProvisioningRequest",
                  CapacityRequestName(builder.job().metadata, ask.count));
}

std::string WhyNotAsAsked(const TrainingJob& job, const ProvisioningSight& sight) {
  const CapacityAsk& ask = *job.status.provisioning;
  const auto find = [&](const std::vector<CapacityObject>& objects, const std::string& name) {
    const CapacityObject* const found = FindNamed(objects, name);
    const bool is_of_ask = found != nullptr && found->is_ours && !found->is_deleting &&
                           found->revision == ask.open->revision;
    return is_of_ask ? found : nullptr;
  };
  for (const RoleSpec& role : job.spec.roles) {
    const std::string name = CapacityTemplateName(job.metadata, ask.count, role.name);
    const CapacityObject* const pods = find(sight.templates, name);
    const std::string difference = pods == nullptr ? "" : DifferenceOfTemplate(*pods, job, role);
    if (!difference.empty()) {
      return "PodTemplate " + name + " " + difference;
    }
  }
  const CapacityObject* const request =
      find(sight.requests, CapacityRequestName(job.metadata, ask.count));
  return request == nullptr ? "" : DifferenceOfRequest(*request, job);
}

std::string DescribeAsk(const DecisionBuilder& builder) {
  const CapacityAsk& ask = *builder.status().provisioning;
  if (!ask.open.has_value()) {
    return "Lockstep asks autoscalers for nodes again at " + FormatRfc3339(*ask.retry_at) +
           LastAnswer(ask);
  }
  const std::string last = LastAnswer(ask);
  if (IsByPods(*ask.open)) {
    return RequestText(ask, builder) + " show cluster autoscalers what the gang needs" + last;
  }
  if (std::string obstacle = ObstacleOf(builder); !obstacle.empty()) {
    return obstacle + last;
  }
  const CapacityObject* const request = OpenRequest(builder);
  if (request == nullptr) {
    return "Lockstep is about to ask autoscalers for nodes by " + RequestText(ask, builder) + last;
  }
  const std::string answer = AnswerIn(request->conditions, ask.open->ask_class);
  return RequestText(ask, builder) + ": " +
         (answer.empty() ? "no autoscaler has answered yet" : answer) + last;
}

std::string DescribePastAsk(const DecisionBuilder& builder) {
  const CapacityAsk& ask = *builder.status().provisioning;
  const std::string last = LastAnswer(ask);
  if (!ask.open.has_value()) {
    return last;
  }
  const std::string asked = "; " + RequestText(ask, builder);
  if (IsByPods(*ask.open)) {
    return asked + " showed cluster autoscalers what the gang needs" + last;
  }
  if (const std::string obstacle = ObstacleOf(builder); !obstacle.empty()) {
    return "; " + obstacle + last;
  }
  const CapacityObject* const request = OpenRequest(builder);
  const std::string answer =
      request == nullptr ? "" : AnswerIn(request->conditions, ask.open->ask_class);
  return asked + ": " + (answer.empty() ? "no autoscaler has answered" : answer) + last;
}

void SayWhatBecameOfIt(DecisionBuilder* builder) {
  const CapacityAsk& ask = *builder->status().provisioning;
  if (!ask.open.has_value() || IsByPods(*ask.open)) {
    return;
  }
  if (const std::string obstacle = ObstacleOf(*builder); !obstacle.empty()) {
    WarnOnce(obstacle == kNotFollowed ? "ProvisioningNotFollowed" : "CapacityNotAsked",
             obstacle,
             builder);
    return;
  }
  const std::string request = RequestText(ask, *builder);
  if (OpenRequest(*builder) != nullptr && !HasSaid("; " + request + ": ", *builder)) {
    builder->Say(
        EventType::kNormal, "CapacityAsked", "Lockstep asks autoscalers for nodes by " + request);
  }
}

void WarnOnce(const std::string& reason, const std::string& words, DecisionBuilder* builder) {
  if (!HasSaid(words, *builder)) {
    builder->Say(EventType::kWarning, reason, words);
  }
}

}  // namespace lockstep::control
