#include "operator/reconcile/recovery/replace.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/contract/status/exit_code.h"
#include "operator/api/job/placement.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/recovery/gang_restart.h"
#include "operator/reconcile/recovery/successor.h"

namespace lockstep::control {
namespace {

// The next meeting's number. Survivors that noticed the loss first have raised theirs already: the
// operator joins them rather than calling another meeting.
Epoch NextEpoch(const GangView& view, Epoch current) {
  Epoch next = current.Next();
  for (const Member& member : view.members) {
    next = ReportedEpoch(member, next);
  }
  return next;
}

std::string Describe(const Failure& failure) {
  return failure.cause == kCauseEnded ? failure.sentence
                                      : failure.sentence + ", cause " + failure.cause;
}

// Messages after which no further lost rank is told of. The first that a survivor hears of takes it
// to the next meeting, which tells it of the others. Choice: every gang of 64 ranks is told of all.
constexpr std::size_t kToldMax = 1024;

void TellSurvivors(const GangView& view,
                   const std::vector<Failure>& failures,
                   DecisionBuilder* builder) {
  std::set<std::string> lost;
  for (const Failure& failure : failures) {
    lost.insert(failure.pod_name);
  }
  std::size_t told = 0;
  for (const Member& gone : view.members) {
    if (!gone.rank.has_value() || lost.count(gone.pod_name) == 0 || told >= kToldMax) {
      continue;
    }
    for (const Member& survivor : view.members) {
      const bool is_ps = builder->is_training() && survivor.task.role == Role::kPs;
      if ((!survivor.rank.has_value() && !is_ps) || survivor.state != MemberState::kRunning ||
          lost.count(survivor.pod_name) > 0) {
        continue;
      }
      ++told;
      ControlMessage message;
      message.job_uid = builder->job().metadata.uid;
      message.attempt = builder->status().attempt;
      message.counter = ++builder->mutable_recovery()->control_counter;
      message.kind = ControlKind::kPeerGone;
      message.rank = *gone.rank;
      message.epoch = builder->status().epoch;
      message.incarnation = gone.number.incarnation;
      builder->Do(SendControl{survivor.pod_name, message});
    }
  }
}

// Whether a successor has waited for its peers in vain: those who run on do not meet, and another
// one in its place would wait as long.
bool IsLeftAlone(const DecisionBuilder& builder, const Failure& failure) {
  const PodPlacement* const placement = FindPlacement(builder.status(), failure.task);
  return failure.cause == ExitCauseName(ExitCause::kUnreachable) && placement != nullptr &&
         placement->incarnation != Incarnation();
}

// Whether both copies of a shard of the built-in trainer's model are lost: ps s has one, the next
// ps the other. A ps that was replaced and does not run yet holds nothing.
bool IsShardLost(const GangView& view, const std::vector<Failure>& failures) {
  std::set<int> all;
  std::set<int> empty;
  for (const Member& member : view.members) {
    if (member.task.role != Role::kPs) {
      continue;
    }
    all.insert(member.task.index);
    const bool is_lost = std::any_of(failures.begin(), failures.end(), [&](const Failure& failure) {
      return failure.task == member.task;
    });
    const bool is_to_come =
        member.state == MemberState::kNotSeen || member.state == MemberState::kPending;
    if (is_lost || (is_to_come && member.number.incarnation > Incarnation())) {
      empty.insert(member.task.index);
    }
  }
  const int count = static_cast<int>(all.size());
  return std::any_of(
      empty.begin(), empty.end(), [&](int ps) { return empty.contains((ps + 1) % count); });
}

// Whether a command's ranks meet a successor as those of the built-in trainer do: one that runs on
// says that it has joined its peers by what the runtime offers (liblockstep). All ends have to be
// forgiven ones of ranks: a program's own verdict stays what it is, and servers are not met.
bool ProgramsMeetAgain(const GangView& view, const std::vector<Failure>& failures) {
  const bool are_forgiven =
      std::all_of(failures.begin(), failures.end(), [](const Failure& failure) {
        return failure.response == FailureResponse::kRestart && failure.rank.has_value();
      });
  return are_forgiven &&
         std::any_of(view.members.begin(), view.members.end(), [](const Member& member) {
           return member.rank.has_value() && member.state == MemberState::kRunning &&
                  member.report != nullptr && !member.report->document.backend.empty();
         });
}

}  // namespace

bool CanReplace(const DecisionBuilder& builder,
                const GangView& view,
                const std::vector<Failure>& failures) {
  if (builder.is_training() && IsShardLost(view, failures)) {
    return false;
  }
  const bool has_finished_rank = HasFinishedRank(view);
  const bool are_left_alone =
      std::all_of(failures.begin(), failures.end(), [&](const Failure& failure) {
        return IsLeftAlone(builder, failure);
      });
  // After a relaunch programs know a later attempt than a new pod would tell its own.
  const bool ranks_meet_again = builder.is_training() || (builder.status().relaunch.count == 0 &&
                                                          ProgramsMeetAgain(view, failures));
  return std::all_of(failures.begin(), failures.end(), [&](const Failure& failure) {
    return failure.task.role == Role::kEvaluator ||
           (ranks_meet_again && !has_finished_rank && !are_left_alone);
  });
}

void ReplaceMembers(const GangView& view,
                    const std::vector<Failure>& failures,
                    DecisionBuilder* builder) {
  const bool has_lost_rank = std::any_of(
      failures.begin(), failures.end(), [](const Failure& one) { return one.rank.has_value(); });
  if (has_lost_rank) {
    Epoch* const epoch = &builder->mutable_recovery()->epoch;
    *epoch = NextEpoch(view, *epoch);
  }
  std::vector<RestartCount>* const restarts = &builder->mutable_failures()->restarts;
  std::vector<Successor> successors;
  for (const Failure& failure : failures) {
    successors.push_back({failure.task, failure.is_node_at_fault});
    *restarts = WithRestart(std::move(*restarts), failure.cause);
    if (failure.cause != kCauseEnded) {  // else its true cause is counted when it is known
      builder->Count(Metric::kRestarts, failure.cause);
    }
    PodPlacement* const placement = builder->PlacementOf(failure.task);
    const std::string disruption = placement->disruption;
    BeginSuccessor(placement, builder->now());
    placement->awaits_verdict = failure.cause == kCauseEnded;
    if (placement->awaits_verdict) {
      placement->disruption = disruption;
    }
    builder->Say(
        EventType::kWarning, "PodReplaced", Describe(failure) + "; " + CostOf(failure, *builder));
  }
  PlaceSuccessors(view, successors, builder);
  TellSurvivors(view, failures, builder);
  if (has_lost_rank) {
    // No event of its own: each replaced pod has just been told of.
    builder->SetQuietly(
        {ConditionType::kRestarting, true, "RankReplaced", Describe(failures.front())});
  }
}

}  // namespace lockstep::control
