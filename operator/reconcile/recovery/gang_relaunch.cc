#include "operator/reconcile/recovery/gang_relaunch.h"

#include <algorithm>
#include <utility>

#include "common/contract/environment/relaunch.h"
#include "operator/api/rules/recovery_rules.h"
#include "operator/reconcile/backoff.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/recovery/gang_restart.h"
#include "operator/reconcile/recovery/relaunch_cause.h"

namespace lockstep::control {
namespace {

// Between two messages to a pod that has not done what it was told. Choice: a message is lost now
// and then, and costs a write of the status.
constexpr std::chrono::seconds kTellAgainAfter{2};

// Whoever has told nothing for so long was not there. Choice: two messages that were due.
constexpr std::chrono::seconds kAbsentAfter = 3 * kTellAgainAfter;

// Members whose programs start anew together. An evaluator waits for nobody.
std::vector<const Member*> Ranks(const GangView& view) {
  std::vector<const Member*> ranks;
  for (const Member& member : view.members) {
    if (member.rank.has_value()) {
      ranks.push_back(&member);
    }
  }
  return ranks;
}

bool IsThere(const Member& member) {
  const bool is_there = member.state == MemberState::kRunning || member.state == MemberState::kHeld;
  return is_there && member.report != nullptr && member.report->document.relaunches.has_value();
}

// Whether the member's programs have ended since the relaunch before `count`, and wait for it.
bool HasHalted(const Member& member, int64_t count) {
  return member.report != nullptr && member.report->document.held.has_value() &&
         RelaunchesOf(member) + 1 >= count;
}

void TellMember(const Member& member, ControlKind kind, DecisionBuilder* builder) {
  RecoveryStatus* const recovery = builder->mutable_recovery();
  ControlMessage message;
  message.job_uid = builder->job().metadata.uid;
  message.attempt = builder->status().attempt;
  message.counter = ++recovery->control_counter;
  message.kind = kind;
  message.epoch = kind == ControlKind::kRelaunch ? recovery->epoch : Epoch();
  message.relaunch = kind == ControlKind::kStop ? 0 : recovery->relaunch.count;
  builder->Do(SendControl{member.pod_name, message});
}

// All that have not done it yet. Where all have halted, they may start.
void TellAll(const GangView& view, DecisionBuilder* builder) {
  Relaunch* const relaunch = &builder->mutable_recovery()->relaunch;
  for (const Member* member : Ranks(view)) {
    if (RelaunchesOf(*member) >= relaunch->count) {
      continue;
    }
    if (relaunch->is_halted) {
      TellMember(*member, ControlKind::kRelaunch, builder);
    } else if (!HasHalted(*member, relaunch->count)) {
      TellMember(*member, ControlKind::kHalt, builder);
    }
  }
  relaunch->told_at = builder->now();
}

bool HaveAllHalted(const GangView& view, int64_t count) {
  const std::vector<const Member*> ranks = Ranks(view);
  return std::all_of(ranks.begin(), ranks.end(), [count](const Member* member) {
    return RelaunchesOf(*member) >= count || HasHalted(*member, count);
  });
}

// What keeps a rank from starting its programs anew where it is, as a sentence about its pod;
// empty: nothing.
std::string WhyNotThere(const Member& member) {
  if (IsThere(member)) {
    return "";
  }
  const std::string pod = "pod " + member.pod_name;
  const bool runs = member.state == MemberState::kRunning || member.state == MemberState::kHeld;
  return member.state == MemberState::kSucceeded ? pod + " has ended with exit code 0"
         : runs                                  ? pod + " does not support a relaunch"
                                                 : pod + " no longer exists";
}

// Why the gang of a job that asks for relaunches gets new pods this time; empty: it need not.
std::string WhyNewPods(const DecisionBuilder& builder,
                       const GangView& view,
                       const std::vector<Failure>& failures) {
  const Relaunch& relaunch = builder.status().relaunch;
  if (!builder.status().has_run) {
    return "the gang had not run yet";
  }
  if (relaunch.since.has_value()) {
    return "the last relaunch did not finish";
  }
  if (relaunch.count >= kRelaunchesMax) {
    return "these pods were relaunched " + std::to_string(relaunch.count) + " times";
  }
  if (BreaksAgainSoon(builder)) {
    return "it failed again soon after its last start";
  }
  for (const Member* const member : Ranks(view)) {
    const bool has_failed =
        std::any_of(failures.begin(), failures.end(), [member](const Failure& failure) {
          return failure.task == member->task;
        });
    if (std::string why = WhyNotThere(*member); !why.empty()) {
      return why;
    }
    if (has_failed && member->state != MemberState::kHeld) {
      return "pod " + member->pod_name + " itself has failed, not only its programs";
    }
  }
  return "";
}

void RelaunchGang(const GangView& view, const Failure& origin, DecisionBuilder* builder) {
  RecoveryStatus* const recovery = builder->mutable_recovery();
  CountGangStart(origin, builder);
  ++recovery->relaunch.count;
  recovery->relaunch.since = builder->now();
  recovery->relaunch.is_halted = HaveAllHalted(view, recovery->relaunch.count);
  recovery->epoch = recovery->epoch.Next();
  for (const Member* member : Ranks(view)) {
    builder->PlacementOf(member->task)->since = builder->now();  // what fails now is another one
  }
  builder->Set({ConditionType::kRestarting,
                true,
                "GangRelaunch",
                origin.sentence + ", cause " + origin.cause + "; " + CostOf(origin, *builder) +
                    "; the programs of all ranks restart in their pods"},
               EventType::kWarning);
  if (recovery->relaunch.is_halted) {
    NameFirstEnd(view, builder);
  }
  TellAll(view, builder);
  builder->WakeAt(builder->now() + kTellAgainAfter);
}

}  // namespace

void StartGangAnew(const GangView& view,
                   const std::vector<Failure>& failures,
                   DecisionBuilder* builder) {
  const Failure& origin = OriginOf(failures, builder->is_training());
  const bool may_relaunch = MayRelaunch(builder->spec());
  const std::string why = may_relaunch ? WhyNewPods(*builder, view, failures) : "";
  if (may_relaunch && why.empty()) {
    RelaunchGang(view, origin, builder);
  } else {
    const bool is_one_machine = builder->observed().is_one_machine;
    RestartGang(WithAllKilled(origin, failures, is_one_machine), why, builder);
  }
}

void NoteAbsence(DecisionBuilder* builder) {
  Relaunch* const relaunch = &builder->mutable_recovery()->relaunch;
  const auto untold = builder->now() - relaunch->told_at;
  if (relaunch->since.has_value() && untold > kAbsentAfter) {
    *relaunch->since += untold - kTellAgainAfter;
    relaunch->told_at = builder->now() - kTellAgainAfter;  // they are told in this turn
  }
}

bool ContinueRelaunch(const GangView& view, DecisionBuilder* builder) {
  Relaunch* const relaunch = &builder->mutable_recovery()->relaunch;
  if (!relaunch->since.has_value()) {
    return false;
  }
  const std::vector<const Member*> ranks = Ranks(view);
  const bool is_done = std::all_of(ranks.begin(), ranks.end(), [&](const Member* member) {
    return RelaunchesOf(*member) >= relaunch->count ||
           (relaunch->is_halted && member->state == MemberState::kSucceeded);
  });
  if (is_done) {
    *relaunch = Relaunch{relaunch->count, std::nullopt, WallTime{}, false};
    return false;
  }
  const bool may_start = !relaunch->is_halted && HaveAllHalted(view, relaunch->count);
  relaunch->is_halted = relaunch->is_halted || may_start;
  if (may_start || relaunch->told_at + kTellAgainAfter <= builder->now()) {
    TellAll(view, builder);
  }
  if (may_start) {
    NameFirstEnd(view, builder);
  }
  builder->WakeAt(relaunch->told_at + kTellAgainAfter);
  builder->WakeAt(*relaunch->since + kRelaunchPatience);
  builder->WakeAt(*relaunch->since + 2 * kRelaunchPatience);
  return true;
}

void ReleaseHeld(const GangView& view, DecisionBuilder* builder) {
  if (HasEnded(builder->job().status)) {
    return;  // it was done in the turn that ended the job
  }
  for (const Member* member : Ranks(view)) {
    if (IsThere(*member) && member->report->document.held.has_value()) {
      TellMember(*member, ControlKind::kStop, builder);
    }
  }
}

void LearnRelaunches(const GangView& view, DecisionBuilder* builder) {
  Relaunch* const relaunch = &builder->mutable_recovery()->relaunch;
  for (const Member* member : Ranks(view)) {
    relaunch->count = std::max(relaunch->count, RelaunchesOf(*member));
  }
}

}  // namespace lockstep::control
