#include "operator/reconcile/act/refused_replacement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator/reconcile/act/gang_restart.h"
#include "operator/reconcile/policy/backoff.h"

namespace lockstep::control {
namespace {

const PodRefusal* RefusalOf(const Member& member, const DecisionBuilder& builder) {
  const auto& refused = builder.observed().refused_pods;
  const auto found = refused.find(member.pod_name);
  return member.state != MemberState::kNotSeen || found == refused.end() ? nullptr : &found->second;
}

}  // namespace

std::optional<WallTime> NextTryOf(const Member& member, const DecisionBuilder& builder) {
  const PodRefusal* const refusal = RefusalOf(member, builder);
  return refusal == nullptr
             ? std::nullopt
             : std::optional(std::min(refusal->at, builder.now()) + RollbackDelay(refusal->count));
}

std::vector<StartProblem> HoldRefused(const GangView& view,
                                      std::vector<StartProblem> problems,
                                      DecisionBuilder* builder) {
  if (!builder->status().has_run) {
    return problems;
  }
  for (const Member& member : view.members) {
    const PodRefusal* const refusal = RefusalOf(member, *builder);
    if (refusal == nullptr || refusal->is_invalid) {
      continue;
    }
    std::erase_if(problems, [&](const StartProblem& one) { return one.task == member.task; });
    const std::string what = DescribeMember(member) + " was not created: " + refusal->message;
    if (member.rank.has_value()) {
      builder->Set({ConditionType::kRestarting,
                    true,
                    "ReplacementRefused",
                    what + "; the others wait, and it is asked for again"},
                   EventType::kWarning);
    } else if (IsTrue(builder->status(), ConditionType::kRunning)) {  // the ranks do without it
      builder->Set({ConditionType::kRunning,
                    true,
                    "ReplacementRefused",
                    what + "; the ranks run, and it is asked for again"},
                   EventType::kWarning);
    }
  }
  return problems;
}

}  // namespace lockstep::control
