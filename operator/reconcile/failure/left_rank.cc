#include "operator/reconcile/failure/left_rank.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/name_list.h"
#include "common/contract/status/exit_code.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/restart_policy.h"
#include "operator/reconcile/failure/vain_meeting.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/success_policy.h"

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
    if (role == nullptr || member.state != MemberState::kSucceeded || !WasMet(member)) {
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

bool HasMetByLibrary(const Member& member) {
  return member.rank.has_value() && member.report != nullptr &&
         !member.report->document.backend.empty();
}

bool SaysAllIsDone(const Member& member) {
  return HasMetByLibrary(member) && member.report->document.phase == Phase::kSucceeded;
}

bool HasNotEnded(const Member& member) {
  return member.rank.has_value() &&
         (member.state == MemberState::kRunning || member.state == MemberState::kLeaving);
}

// Nothing is known of it that it has said since `moment`.
bool IsSilentSince(const Member& member, WallTime moment, WallTime now) {
  return member.report == nullptr || now - member.report->age < moment;
}

int64_t CountUnreachable(const std::vector<Failure>& failures) {
  return std::count_if(failures.begin(), failures.end(), IsUnreachable);
}

// The newest end with exit code 0.
std::optional<WallTime> LastSuccess(const GangView& view) {
  std::optional<WallTime> last;
  for (const Member& member : view.members) {
    if (member.rank.has_value() && member.state == MemberState::kSucceeded &&
        member.pod != nullptr && member.pod->status.termination.has_value()) {
      last = std::max(last, member.pod->status.termination->finished_at);
    }
  }
  return last;
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
    failure.sentence = NameList(names) +
                       " exited with code 0 while other ranks still needed it: " + failure.sentence;
  }
  return failures;
}

DecisiveEnd DecisiveEndOf(const GangView& view, DecisionBuilder* builder) {
  const auto any_member = [&view](const auto& is_so) {
    return std::any_of(view.members.begin(), view.members.end(), is_so);
  };
  if (!HasSucceeded(builder->spec().success_policy, builder->topology(), view)) {
    return DecisiveEnd::kNone;
  }
  if (builder->is_training() || any_member(SaysAllIsDone)) {
    return DecisiveEnd::kOver;
  }
  const std::vector<Failure> failures = FindFailures(*builder, view, {});
  if (CountUnreachable(BlameLeavers(*builder, view, failures)) < CountUnreachable(failures)) {
    return DecisiveEnd::kMissed;
  }
  const std::optional<WallTime> left_at = LastSuccess(view);
  const WallTime now = builder->now();
  // A node whose clock is ahead says nothing of when that was.
  if (!left_at.has_value() || *left_at > now + kFarewellSeen) {
    return DecisiveEnd::kOver;
  }
  const auto may_have_met = [now, &left_at](const Member& member) {
    return HasNotEnded(member) && (HasMetByLibrary(member) || IsSilentSince(member, *left_at, now));
  };
  // The first span lets reports arrive: from members that have met, and from members that have not
  // reported yet.
  const WallTime heard_at = *left_at + kFarewellSeen;
  if (now < heard_at && any_member(may_have_met)) {
    builder->WakeAt(heard_at);
    return DecisiveEnd::kAwaited;
  }
  if (!any_member(
          [](const Member& member) { return HasNotEnded(member) && HasMetByLibrary(member); })) {
    return DecisiveEnd::kOver;
  }
  const WallTime over_at = heard_at + kFarewellSeen;
  if (now < over_at) {
    builder->WakeAt(over_at);
    return DecisiveEnd::kAwaited;
  }
  return DescribeVainMeeting(view, builder).has_value() ? DecisiveEnd::kAwaited
                                                        : DecisiveEnd::kOver;
}

}  // namespace lockstep::control
