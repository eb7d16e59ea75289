#include "operator/reconcile/detect/echo.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/contract/exit_code.h"
#include "operator/reconcile/policy/restart_policy.h"

namespace lockstep::control {
namespace {

bool MayBeEcho(const Failure& failure) {
  return failure.response == FailureResponse::kFailJob && failure.task.role != Role::kEvaluator &&
         failure.cause == ExitCauseName(ExitCause::kProgramExit);
}

bool HasGone(const Member& member) {
  return member.state == MemberState::kSucceeded || member.state == MemberState::kFailed ||
         member.state == MemberState::kHeld || member.state == MemberState::kVanished;
}

// Whether the member's end would be the better explanation, if it came.
bool MayExplain(const DecisionBuilder& builder, const Member& member) {
  const RoleSpec* const role = builder.job().FindRole(member.task.role);
  return !HasGone(member) && member.task.role != Role::kEvaluator && role != nullptr &&
         ResponseTo(role->restart_policy, Outcome::kRetryable, member.rank.has_value()) ==
             FailureResponse::kRestart;
}

// Whether the failure names the loss of one of the ranks of a pod, which has `count` from `first`
// on.
bool NamesOneOf(const Failure& failure, std::optional<int> first, int64_t count) {
  return failure.lost_rank.has_value() && first.has_value() && *failure.lost_rank >= *first &&
         *failure.lost_rank < *first + count;
}

// Whether the pod of the rank whose loss the failure names has not ended yet.
bool IsExplainedSoon(const DecisionBuilder& builder, const GangView& view, const Failure& failure) {
  return std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
    const RoleSpec* const role = builder.job().FindRole(member.task.role);
    return role != nullptr && NamesOneOf(failure, member.rank, role->processes) && !HasGone(member);
  });
}

}  // namespace

bool IsExplained(const Failure& failure, const std::vector<Failure>& failures) {
  return std::any_of(failures.begin(), failures.end(), [&](const Failure& other) {
    return other.task != failure.task && NamesOneOf(failure, other.rank, other.process_count);
  });
}

std::optional<WallTime> PatienceWithEcho(const DecisionBuilder& builder,
                                         const GangView& view,
                                         const std::vector<Failure>& failures) {
  const bool is_explainable =
      std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
        return MayExplain(builder, member);
      });
  const auto may_wait = [&](const Failure& failure) {
    return IsExplained(failure, failures) || (is_explainable && MayBeEcho(failure)) ||
           IsExplainedSoon(builder, view, failure);
  };
  const bool is_settled =
      std::all_of(failures.begin(), failures.end(), [&](const Failure& failure) {
        return IsExplained(failure, failures);  // by one another
      });
  if (builder.is_training() || is_settled ||
      !std::all_of(failures.begin(), failures.end(), may_wait)) {
    return std::nullopt;
  }
  std::optional<WallTime> first;
  for (const Failure& failure : failures) {
    if (failure.ended_at.has_value()) {
      first = first.has_value() ? std::min(*first, *failure.ended_at) : *failure.ended_at;
    }
  }
  const bool is_recent = first.has_value() && builder.now() < *first + kEchoPatience &&
                         *first <= builder.now() + kEchoPatience;
  return is_recent ? std::optional(*first + kEchoPatience) : std::nullopt;
}

const Failure& OriginOf(const std::vector<Failure>& failures, bool is_training) {
  LOCKSTEP_CHECK(!failures.empty(), "the origin of no failure");
  const FailureResponse first = is_training ? FailureResponse::kFailJob : FailureResponse::kRestart;
  const auto precedes = [&](const Failure& a, const Failure& b) {
    const bool is_echo = IsExplained(a, failures);
    if (is_echo != IsExplained(b, failures)) {
      return !is_echo;
    }
    if ((a.response == first) != (b.response == first)) {
      return a.response == first;
    }
    return a.ended_at.has_value() && (!b.ended_at.has_value() || *a.ended_at < *b.ended_at);
  };
  return *std::min_element(failures.begin(), failures.end(), precedes);
}

}  // namespace lockstep::control
