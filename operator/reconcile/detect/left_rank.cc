#include "operator/reconcile/detect/left_rank.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/name_list.h"
#include "common/contract/exit_code.h"
#include "operator/api/conditions.h"
#include "operator/reconcile/detect/vain_meeting.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/policy/restart_policy.h"

namespace lockstep::control {
namespace {

bool IsUnreachable(const Failure& failure) {
  return failure.cause == ExitCauseName(ExitCause::kUnreachable);
}

// What has become of ranks that somebody may have lost, as far as it is of interest here.
struct Fates {
  std::map<int, std::string> left;  // by rank; its pod, as people are told of it
  std::map<int, bool> gave_up;      // whether the failure of the rank's pod says whom it has lost
};

// Whether it is the one that others have met, and lost: a successor that ends without having joined
// them is not.
bool WasMet(const Member& member) {
  return member.number.incarnation == Incarnation() ||
         (member.report != nullptr && !member.report->document.backend.empty());
}

Fates FatesOf(const DecisionBuilder& builder,
              const GangView& view,
              const std::vector<Failure>& failures) {
  Fates fates;
  for (const Member& member : view.members) {
    const RoleSpec* const role = builder.job().FindRole(member.task.role);
    if (role == nullptr || member.state != MemberState::kSucceeded || !WasMet(member) ||
        (member.pod != nullptr && SaysItObeyed(*member.pod))) {
      continue;
    }
    for (int i = 0; member.rank.has_value() && i < role->processes; ++i) {
      fates.left[*member.rank + i] = DescribeMember(member);
    }
  }
  for (const Failure& failure : failures) {
    for (int i = 0; failure.rank.has_value() && i < failure.process_count; ++i) {
      fates.gave_up[*failure.rank + i] = IsUnreachable(failure) && !failure.lost_ranks.empty();
    }
    for (const int rank : failure.left_ranks) {
      fates.left[rank] = "rank " + std::to_string(rank) + " of pod " + failure.pod_name;
    }
  }
  return fates;
}

// Of the ranks that the failure names, those that have left; none where another reason may be found
// in what became of one of them.
std::vector<int> LostLeavers(const Failure& failure, const Fates& fates) {
  std::vector<int> left;
  for (const int rank : failure.lost_ranks) {
    const auto given_up = fates.gave_up.find(rank);
    if (fates.left.count(rank) > 0) {
      left.push_back(rank);
    } else if (given_up == fates.gave_up.end() || !given_up->second) {
      return {};
    }
  }
  return left;
}

// The one before it was lost when all may have been done: those that it waited for had not left
// then, as far as anybody knows, and another try tells.
bool IsOfUnmetSuccessor(const GangView& view, const Failure& failure) {
  return std::any_of(view.members.begin(), view.members.end(), [&failure](const Member& member) {
    return member.pod_name == failure.pod_name && !WasMet(member);
  });
}

// The operator has said of the meeting that ran out whom it waited for.
bool RanOutInVain(const DecisionBuilder& builder, const Failure& failure) {
  const Condition* const running = FindCondition(builder.status(), ConditionType::kRunning);
  return failure.lost_ranks.empty() && running != nullptr && running->is_true &&
         running->reason == kReasonRankLeft;
}

}  // namespace

std::vector<Failure> BlameLeavers(const DecisionBuilder& builder,
                                  const GangView& view,
                                  std::vector<Failure> failures) {
  if (builder.is_training()) {
    return failures;
  }
  const Fates fates = FatesOf(builder, view, failures);
  for (Failure& failure : failures) {
    const RoleSpec* const role = builder.job().FindRole(failure.task.role);
    if (role == nullptr || !IsUnreachable(failure) || fates.left.empty() ||
        IsOfUnmetSuccessor(view, failure)) {
      continue;
    }
    std::vector<int> lost = LostLeavers(failure, fates);
    std::vector<std::string> names;
    for (const int rank : lost) {
      names.push_back(fates.left.at(rank));
    }
    if (lost.empty() && RanOutInVain(builder, failure)) {
      names.push_back(fates.left.begin()->second);
    }
    if (names.empty()) {
      continue;
    }
    names.erase(std::unique(names.begin(), names.end()), names.end());
    failure.lost_ranks = std::move(lost);
    failure.cause = ExitCauseName(ExitCause::kProgramExit);
    failure.response =
        ResponseTo(role->restart_policy, Outcome::kPermanent, failure.rank.has_value());
    failure.sentence =
        NameList(names) + " left with exit code 0 while others still used it: " + failure.sentence;
  }
  return failures;
}

}  // namespace lockstep::control
