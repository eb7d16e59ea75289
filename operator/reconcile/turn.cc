#include "operator/reconcile/turn.h"

#include <utility>
#include <vector>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/trouble.h"
#include "operator/reconcile/follow_up.h"
#include "operator/reconcile/gang/seen_gang.h"
#include "operator/reconcile/lifecycle/begin.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/lifecycle/evict_gang.h"
#include "operator/reconcile/lifecycle/news.h"
#include "operator/reconcile/lifecycle/renewal.h"
#include "operator/reconcile/lifecycle/success.h"
#include "operator/reconcile/lifecycle/suspension.h"
#include "operator/reconcile/recovery/successor.h"
#include "operator/reconcile/start/place_gang.h"
#include "operator/reconcile/start/trouble_answer.h"

namespace lockstep::control {
namespace {

// What the stages of a turn hand on to each other, besides the status in the builder.
struct Turn {
  DecisionBuilder* builder;
  GangView view = {};
  Trouble trouble = {};
};

// Whether the next stage follows; kDone: the gang has been decided on in this turn.
enum class Then { kGoOn, kDone };

Then DoneIf(bool is_done) {
  return is_done ? Then::kDone : Then::kGoOn;
}

Then Refuse(Turn* turn) {
  const std::vector<Error> problems = CheckTopology(turn->builder->topology());
  if (!problems.empty()) {
    turn->builder->Fail("InvalidJob", problems.front().ToString());
  }
  return DoneIf(!problems.empty());
}

Then FitSize(Turn* turn) {
  RenewOtherSize(turn->builder);
  return Then::kGoOn;
}

Then SuspendOrResume(Turn* turn) {
  if (turn->builder->spec().run_policy.suspend) {
    Suspend(turn->builder);
    return Then::kDone;
  }
  StartOrResume(turn->builder);
  return Then::kGoOn;
}

Then HearNews(Turn* turn) {
  turn->view = TakeNews(turn->builder);
  return DoneIf(HasEnded(turn->builder->status()));
}

Then EndByTime(Turn* turn) {
  return DoneIf(HasRunTooLong(turn->builder));
}

Then Place(Turn* turn) {
  if (!turn->builder->status().placement.empty()) {
    return Then::kGoOn;
  }
  PlaceGang(turn->view, turn->builder);
  return Then::kDone;
}

Then Succeed(Turn* turn) {
  const DecisiveEnd end = EndBySuccess(turn->view, turn->builder);
  if (end == DecisiveEnd::kAwaited) {
    NoteHealth(turn->view, turn->builder);
  }
  return DoneIf(end == DecisiveEnd::kOver || end == DecisiveEnd::kAwaited);
}

Then Evict(Turn* turn) {
  return DoneIf(EvictIfAsked(turn->view, turn->builder));
}

Then PlaceSuccessors(Turn* turn) {
  if (PlaceWaitingSuccessors(turn->view, turn->builder)) {
    turn->view = SeeGang(*turn->builder);
  }
  return Then::kGoOn;
}

Then SeeTrouble(Turn* turn) {
  turn->trouble = FindTrouble(turn->view, *turn->builder);
  return Then::kGoOn;
}

Then Renew(Turn* turn) {
  return DoneIf(RenewOutdated(turn->view, turn->trouble, turn->builder));
}

Then Answer(Turn* turn) {
  AnswerTrouble(turn->view, std::move(turn->trouble), turn->builder);
  return Then::kDone;
}

// What decides on the gang of a job that has not ended, in this order, up to the first that is
// done.
constexpr Then (*kStages[])(Turn*) = {
    Refuse,           // what no gang can be made of
    FitSize,          // lifecycle/renewal: a gang of another size than asked for
    SuspendOrResume,  // lifecycle/suspension
    HearNews,         // lifecycle/news: what has become of the pods
    EndByTime,        // lifecycle/deadline
    Place,            // start/place_gang: a gang without places, and nothing else of it
    Succeed,          // lifecycle/success
    Evict,            // lifecycle/evict_gang: another gang is to have the room
    PlaceSuccessors,  // recovery/successor: members without a place
    SeeTrouble,       // failure/trouble: failed members, and pods that do not start
    Renew,            // lifecycle/renewal: pods are needed, and the manifest has changed
    Answer,           // start/trouble_answer, recovery/failure_answer
};

}  // namespace

void TakeTurn(DecisionBuilder* builder) {
  Begin(builder);
  if (!HasEnded(builder->status())) {
    Turn turn{builder};
    for (const auto stage : kStages) {
      if (stage(&turn) == Then::kDone) {
        break;
      }
    }
  }
  FollowUp(builder);
}

}  // namespace lockstep::control
