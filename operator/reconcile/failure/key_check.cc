#include "operator/reconcile/failure/key_check.h"

#include <algorithm>
#include <string>

#include "common/base/plural.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/pods/job_objects.h"
#include "operator/reconcile/pods/lasting_checkpoints.h"

namespace lockstep::control {
namespace {

constexpr const char* kNodeSilent = "NodeNotReady";
constexpr const char* kCost = ". The operator notices lost pods late";

// Training goes on unheard, and nothing of it is lost that way: whoever starts it anew for the sake
// of being heard is told what that costs.
std::string WhatToDo(const DecisionBuilder& builder) {
  return ", and progress is not reported. Training continues, and its result is safe. Let the job "
         "end, or put the old key back into the operator's Secret and restart the operator. To "
         "restart the job's pods instead, delete the Secret " +
         KeySecretName(builder.job().metadata) + ", then suspend and resume the job" +
         CostOfNewGang(builder.job(), builder.observed());
}

// How many members' pods refuse for that reason, and the node of the first of them.
struct Refusing {
  int64_t count = 0;
  std::string node;
};

Refusing CountRefusing(const GangView& view, const Observed& observed, TokenVerdict why) {
  Refusing refusing;
  for (const Member& member : view.members) {
    const auto found = observed.refusing_pods.find(member.pod_name);
    if (found == observed.refusing_pods.end() || found->second != why) {
      continue;
    }
    if (refusing.count++ == 0) {
      refusing.node = member.node;
    }
  }
  return refusing;
}

// How many pods run as far as is known, on a node that does not report, and nobody hears of them;
// and the first such node.
struct Silent {
  int64_t count = 0;
  std::string node;
};

Silent CountSilent(const GangView& view, const Observed& observed) {
  Silent silent;
  for (const Member& member : view.members) {
    if (member.state != MemberState::kRunning || IsNodeReady(observed, member.node) ||
        IsHeard(view.members, member)) {
      continue;
    }
    if (silent.count++ == 0) {
      silent.node = member.node;
    }
  }
  return silent;
}

bool WaitsForNode(const TrainingJobStatus& status) {
  const Condition* const heard = FindCondition(status, ConditionType::kRuntimeHeard);
  return heard != nullptr && !heard->is_true && heard->reason == kNodeSilent;
}

std::string DoNotTake(int64_t count) {
  return Plural(count, "pod") + (count == 1 ? " does" : " do") + " not accept the operator's ";
}

}  // namespace

void CheckKey(const GangView& view, DecisionBuilder* builder) {
  const Refusing foreign = CountRefusing(view, builder->observed(), TokenVerdict::kForeign);
  const Refusing expired = CountRefusing(view, builder->observed(), TokenVerdict::kExpired);
  if (foreign.count > 0) {
    builder->Set({ConditionType::kRuntimeHeard,
                  false,
                  "KeyRefused",
                  DoNotTake(foreign.count) +
                      "key: the key has changed, or their runtime has a different version" + kCost +
                      WhatToDo(*builder)},
                 EventType::kWarning);
  } else if (expired.count > 0) {
    builder->Set({ConditionType::kRuntimeHeard,
                  false,
                  "ClockDiffers",
                  DoNotTake(expired.count) + "tokens: the clocks of node " + expired.node +
                      " and of the operator differ by more than five minutes" + kCost +
                      ". Correct the wrong clock"},
                 EventType::kWarning);
  } else if (const Silent silent = CountSilent(view, builder->observed()); silent.count > 0) {
    builder->Set({ConditionType::kRuntimeHeard,
                  false,
                  kNodeSilent,
                  "node " + silent.node + " does not report, so the state of " +
                      Plural(silent.count, "pod") +
                      " is unknown. The job continues when the node reports or is removed, or when "
                      "Kubernetes evicts the node's pods (by default after five minutes)"},
                 EventType::kWarning);
  } else if (WaitsForNode(builder->status()) && !view.members.empty()) {
    builder->Set({ConditionType::kRuntimeHeard, true, "NodeReports", "the pods' nodes report"});
  } else if (FindCondition(builder->status(), ConditionType::kRuntimeHeard) != nullptr &&
             std::any_of(view.members.begin(), view.members.end(), GivesFreshReport)) {
    builder->Set(
        {ConditionType::kRuntimeHeard, true, "KeyTaken", "pods accept the operator's key"});
  }
}

}  // namespace lockstep::control
