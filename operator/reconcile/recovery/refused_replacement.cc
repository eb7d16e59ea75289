#include "operator/reconcile/recovery/refused_replacement.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/rfc3339.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/backoff.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {
namespace {

// Restarting's reason, or Running's.
constexpr std::string_view kReplacementRefused = "ReplacementRefused";

const PodRefusal* RefusalOf(const Member& member, const DecisionBuilder& builder) {
  const auto& refused = builder.observed().refused_pods;
  const auto found = refused.find(member.pod_name);
  return member.state != MemberState::kNotSeen || found == refused.end() ? nullptr : &found->second;
}

// Says so, and when the pod is asked for again; in the moment of that nothing is new.
void TellOfRefusal(const ConditionChange& change, WallTime next_try, DecisionBuilder* builder) {
  const Condition* const said = FindCondition(builder->status(), change.type);
  const bool is_said = said != nullptr && said->is_true && said->reason == change.reason;
  if (is_said && next_try <= builder->now()) {
    return;
  }
  ConditionChange timed = change;
  timed.message += " at " + FormatRfc3339(next_try);
  builder->Set(timed, EventType::kWarning);
}

}  // namespace

bool HasSurvivor(const GangView& view) {
  return std::any_of(view.members.begin(), view.members.end(), [](const Member& member) {
    return member.rank.has_value() && member.state == MemberState::kRunning;
  });
}

std::optional<WallTime> NextTryOf(const Member& member, const DecisionBuilder& builder) {
  const PodRefusal* const refusal = RefusalOf(member, builder);
  return refusal == nullptr ? std::nullopt
                            : std::optional(std::min(refusal->at, builder.now()) +
                                            RollbackDelay(refusal->count, kRefusalDelayMax));
}

std::vector<StartProblem> HoldRefused(const GangView& view,
                                      std::vector<StartProblem> problems,
                                      DecisionBuilder* builder) {
  if (!builder->status().has_run || !HasSurvivor(view)) {
    return problems;
  }
  for (const Member& member : view.members) {
    const PodRefusal* const refusal = RefusalOf(member, *builder);
    if (refusal == nullptr || refusal->is_invalid) {
      continue;
    }
    std::erase_if(problems, [&](const StartProblem& one) { return one.task == member.task; });
    // The time that its pod has for its start does not begin before the server takes it.
    if (PodPlacement* const placement = builder->PlacementOf(member.task);
        !placement->awaits_verdict) {
      placement->since = std::max(placement->since, std::min(refusal->at, builder->now()));
    }
    const std::string what = DescribeMember(member) + " was not created: " + refusal->message;
    const WallTime next_try = *NextTryOf(member, *builder);
    if (member.rank.has_value()) {
      TellOfRefusal({ConditionType::kRestarting,
                     true,
                     std::string(kReplacementRefused),
                     what + "; the other ranks wait, and the operator tries again"},
                    next_try,
                    builder);
    } else if (IsTrue(builder->status(), ConditionType::kRunning)) {  // the ranks do without it
      TellOfRefusal({ConditionType::kRunning,
                     true,
                     std::string(kReplacementRefused),
                     what + "; the ranks continue, and the operator tries again"},
                    next_try,
                    builder);
    }
  }
  return problems;
}

bool TellsOfRefusal(const GangView& view, const DecisionBuilder& builder) {
  const Condition* const told = FindCondition(builder.status(), ConditionType::kRestarting);
  return told != nullptr && told->is_true && told->reason == kReplacementRefused &&
         std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
           return member.rank.has_value() && RefusalOf(member, builder) != nullptr;
         });
}

}  // namespace lockstep::control
