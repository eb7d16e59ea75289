#include "operator/reconcile/failure/echo.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/contract/status/exit_code.h"
#include "operator/reconcile/failure/restart_policy.h"

namespace lockstep::control {
namespace {

// What programs say last whose connection to a peer was closed: gloo (also below torchrun, where
// each pod ends with the code of its own rank), NCCL, and sockets in Python. Such a program names
// no rank.
bool SaysPeerIsGone(const Failure& failure) {
  static constexpr std::array<std::string_view, 5> kPhrases = {"Connection closed by peer",
                                                               "Connection reset by peer",
                                                               "remote process exited",
                                                               "remote process has terminated",
                                                               "Broken pipe"};
  return std::any_of(kPhrases.begin(), kPhrases.end(), [&](std::string_view phrase) {
    return failure.sentence.find(phrase) != std::string::npos;
  });
}

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

// Whether the member may be one that others have lost. A successor has joined its peers once its
// program says what they sum with; before, whoever has lost its rank has lost its predecessor. One
// that runs and was not asked yet may have joined them under an earlier leader.
bool MayBeLost(const Member& member) {
  if (HasGone(member) || IsStarting(member)) {
    return false;
  }
  return member.number.incarnation == Incarnation() || member.report == nullptr ||
         !member.report->document.backend.empty();
}

// Pods by their ranks: a lost one is looked for among thousands, once for each that names it.
class PodsByRank {
 public:
  // A pod that has `count` ranks from `first` on; none where that is null. No two have one rank.
  void Add(std::optional<int> first, int64_t count, const TaskId& task) {
    if (first.has_value()) {
      pods_[*first] = {*first + count, task};
    }
  }

  // Whether one of the ranks that the failure names as lost is of a pod other than its own.
  bool HaveOneLostBy(const Failure& failure) const {
    return std::any_of(failure.lost_ranks.begin(), failure.lost_ranks.end(), [&](int rank) {
      const auto after = pods_.upper_bound(rank);
      if (after == pods_.begin()) {
        return false;
      }
      const Pod& pod = std::prev(after)->second;
      return rank < pod.end && pod.task != failure.task;
    });
  }

 private:
  struct Pod {
    int64_t end = 0;  // behind its last rank
    TaskId task;
  };

  std::map<int, Pod> pods_;  // by first rank
};

// The pods whose loss may be what a failure names, and which have not ended yet.
PodsByRank PodsToExplain(const DecisionBuilder& builder, const GangView& view) {
  PodsByRank pods;
  for (const Member& member : view.members) {
    const RoleSpec* const role = builder.job().FindRole(member.task.role);
    if (role != nullptr && MayBeLost(member)) {
      pods.Add(member.rank, role->processes, member.task);
    }
  }
  return pods;
}

std::optional<WallTime> FirstEnd(const std::vector<Failure>& failures) {
  std::optional<WallTime> first;
  for (const Failure& failure : failures) {
    if (failure.ended_at.has_value()) {
      first = first.has_value() ? std::min(*first, *failure.ended_at) : *failure.ended_at;
    }
  }
  return first;
}

}  // namespace

std::vector<bool> FindExplained(const std::vector<Failure>& failures) {
  PodsByRank pods;
  for (const Failure& failure : failures) {
    pods.Add(failure.rank, failure.process_count, failure.task);
  }
  std::vector<bool> are_explained;
  for (const Failure& failure : failures) {
    are_explained.push_back(pods.HaveOneLostBy(failure));
  }
  return are_explained;
}

std::optional<WallTime> PatienceWithEcho(const DecisionBuilder& builder,
                                         const GangView& view,
                                         const std::vector<Failure>& failures) {
  if (builder.is_training()) {
    return std::nullopt;
  }
  const bool is_explainable =
      std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
        return MayExplain(builder, member);
      });
  const std::vector<bool> are_explained = FindExplained(failures);
  const PodsByRank to_explain = PodsToExplain(builder, view);
  bool is_settled = true;  // all are explained by one another
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const bool is_explained_soon = to_explain.HaveOneLostBy(failures[i]);
    is_settled = is_settled && are_explained[i] && !is_explained_soon;
    if (!are_explained[i] && !is_explained_soon && !(is_explainable && MayBeEcho(failures[i]))) {
      return std::nullopt;
    }
  }
  if (is_settled) {
    return std::nullopt;
  }
  const std::optional<WallTime> first = FirstEnd(failures);
  const bool is_recent = first.has_value() && builder.now() < *first + kEchoPatience &&
                         *first <= builder.now() + kEchoPatience;
  return is_recent ? std::optional(*first + kEchoPatience) : std::nullopt;
}

const Failure& OriginOf(const std::vector<Failure>& failures, bool is_training) {
  LOCKSTEP_CHECK(!failures.empty(), "there is no failure, so none can be the origin");
  const FailureResponse first = is_training ? FailureResponse::kFailJob : FailureResponse::kRestart;
  const std::vector<bool> are_echoes = FindExplained(failures);
  const auto precedes = [&](std::size_t i, std::size_t j) {
    if (are_echoes[i] != are_echoes[j]) {
      return !are_echoes[i];
    }
    const Failure& a = failures[i];
    const Failure& b = failures[j];
    if ((a.response == first) != (b.response == first)) {
      return a.response == first;
    }
    if (SaysPeerIsGone(a) != SaysPeerIsGone(b)) {
      return SaysPeerIsGone(b);
    }
    return a.ended_at.has_value() && (!b.ended_at.has_value() || *a.ended_at < *b.ended_at);
  };
  std::size_t origin = 0;
  for (std::size_t i = 1; i < failures.size(); ++i) {
    origin = precedes(i, origin) ? i : origin;
  }
  return failures[origin];
}

}  // namespace lockstep::control
