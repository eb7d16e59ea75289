#include "operator/scheduler/round.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "operator/scheduler/backfill.h"
#include "operator/scheduler/explanations.h"
#include "operator/scheduler/hold_back.h"
#include "operator/scheduler/placement/kept_room.h"
#include "operator/scheduler/placement/placer.h"
#include "operator/scheduler/placement/preemption.h"
#include "operator/scheduler/placement/take_over.h"
#include "operator/scheduler/queue_positions.h"
#include "operator/scheduler/quota_turn.h"
#include "operator/scheduler/turn_order.h"

namespace lockstep::control {
namespace {

// Gangs that are told when they start, each the first of its queue. Choice: a millisecond's worth
// on thousands of nodes; who comes after that is not told.
constexpr int kStartsToldMax = 8;

class RoundRun {
 public:
  RoundRun(ClusterState* state, WallTime now, RoundMemory* memory, const RoundOptions& options)
      : state_(*state),
        options_(options),
        memory_(*memory),
        news_(state->news()),
        statement_(state, now),
        quota_turns_(*state),
        reservations_(&statement_, options.search_steps_max),
        backfill_(&statement_, &reservations_),
        hold_backs_(options.hold_back, &statement_, &reservations_),
        searches_left_(options.searches_max) {}

  RoundResult Run() {
    SettleClaims();
    TurnOrder order(state_);
    while (const GangRecord* const gang = order.Next()) {
      if (OpensGap(*gang)) {
        order.PutShortestFirst(*gang, statement_.now());
      } else if (Consider(*gang) && gang->request.standing != Standing::kAside) {
        line_.push_back(gang);
      }
    }
    HaveOthersGoInTurn();
    StartClaimants();
    NumberLine();
    LookAgainAt(hold_backs_.next(), &result_);
    Explanations(&statement_, &reservations_, options_).Explain(waits_, news_, &result_);
    RememberSearches();
    result_.log = statement_.operations();
    statement_.RollBack(0);
    memory_.later.Trim(state_);
    return std::move(result_);
  }

 private:
  // Gangs whose room is gone for good, or whose queue, its quota for them or their priority class
  // is, wait like others.
  void SettleClaims() {
    const std::vector<const GangRecord*> claiming(state_.claiming().begin(),
                                                  state_.claiming().end());
    for (const GangRecord* const gang : claiming) {
      if (ProblemOfQueue(state_, *gang) || !gang->request.missing_class.empty() ||
          !StillHasQuota(*gang) || !MayComeFree(state_, *gang)) {
        statement_.Do({OperationKind::kUnclaim, gang->request.name});
      } else {
        claimants_.push_back(gang);
        line_.push_back(gang);
      }
    }
  }

  // Gangs whose room has come free start, unless another of a higher priority takes that. They do
  // when all others have had their turns: what is kept is nobody else's either way. Those whose
  // claim is of this round have their turn in the next: others have only now been asked to go.
  void StartClaimants() {
    std::erase_if(claimants_,
                  [](const GangRecord* gang) { return gang->state != GangState::kClaiming; });
    for (const GangRecord* const gang : ClaimantsWithRoom(state_, claimants_)) {
      if (gang->request.standing != Standing::kPausing && !awaited_.contains(gang->request.name)) {
        Start(*gang, gang->claimed_pods);
      }
    }
  }

  // Who started is not in line any more. Where the shortest came first, the others stand as they
  // would have had their turns.
  void NumberLine() {
    if (backfill_.has_gap()) {
      PutInTurn(&line_);
    }
    result_.line = PositionsOf(state_, line_);
  }

  // Those for which room is kept stay first.
  void PutInTurn(std::vector<const GangRecord*>* line) const {
    const std::set<const GangRecord*> in_line(line->begin(), line->end());
    std::erase_if(*line, [](const auto* gang) { return gang->state == GangState::kWaiting; });
    TurnOrder order(state_);
    while (const GangRecord* const gang = order.Next()) {
      if (in_line.contains(gang)) {
        line->push_back(gang);
      }
    }
  }

  // Queues may have been changed since the claim was made, and gangs that were to go may stay.
  bool StillHasQuota(const GangRecord& gang) {
    const std::size_t begin = statement_.checkpoint();
    statement_.Do({OperationKind::kUnclaim, gang.request.name});
    const bool has_quota = state_.queues().Allows(*gang.queue, gang.total);
    statement_.RollBack(begin);
    return has_quota;
  }

  void Start(const GangRecord& gang, PlacedPods pods) {
    result_.grants.push_back({gang.request.name, pods});
    statement_.Do({OperationKind::kStart, gang.request.name, {}, std::move(pods)});
  }

  // Whether those that wait in the gang's queue hold reservations, so that the shortest come first
  // from now on. That is looked at where one comes that may fit.
  bool OpensGap(const GangRecord& gang) {
    if (!gang.queue || backfill_.IsTried(*gang.queue) ||
        !state_.queues().Allows(*gang.queue, gang.total) || !MayFitNow(state_.nodes(), gang)) {
      return false;
    }
    Backfill::Heads heads = {TurnsOf(*gang.queue).First(), quota_turns_.FirstOf(*gang.queue)};
    std::erase(heads, nullptr);
    if (heads.empty()) {
      return false;
    }
    if (const GangRecord* const oldest = OldestOf(*gang.queue);
        oldest != nullptr && std::find(heads.begin(), heads.end(), oldest) == heads.end()) {
      heads.push_back(oldest);
    }
    if (!backfill_.Open(*gang.queue, std::move(heads))) {
      return false;
    }
    quota_turns_.TakeAsTheyCome(*gang.queue);
    return true;
  }

  TurnKeeper& TurnsOf(QueueIndex queue) {
    return turns_.try_emplace(queue, state_, &memory_.later).first->second;
  }

  // Who has waited longest of those that may run one day.
  const GangRecord* OldestOf(QueueIndex queue) {
    for (const GangRecord* const gang : state_.waiting()[queue]) {
      if (gang->request.standing != Standing::kAside && quota_turns_.MayHaveQuota(*gang) &&
          gang->request.missing_class.empty() && !ProblemOfQueue(state_, *gang) &&
          (Asks(gang->request) || TurnsOf(queue).WouldFit(*gang))) {
        return gang;
      }
    }
    return nullptr;
  }

  // Whether it is in line: its queue serves it, and it could start there one day.
  bool Consider(const GangRecord& gang) {
    if (auto problem = ProblemOfQueue(state_, gang)) {
      waits_.push_back(*std::move(problem));
      return false;
    }
    if (!gang.request.missing_class.empty()) {
      waits_.push_back({&gang, Obstacle::kPriorityClass, gang.request.missing_class});
      return false;
    }
    TurnKeeper& turn = TurnsOf(*gang.queue);
    if (gang.request.standing == Standing::kPausing) {
      turn.Wait(gang);
      return MayStartOneDay(gang);
    }
    const bool has_quota = state_.queues().Allows(*gang.queue, gang.total);
    if (!has_quota && state_.queues().WhyNeverHeld(*gang.queue, gang.total).has_value()) {
      waits_.push_back({&gang, Obstacle::kQuota});  // it is behind nobody, and nobody behind it
      return false;
    }
    // What no node could ever hold is told so, whatever its queue holds now. Of what may run one
    // day its quota decides first.
    const bool is_for_room = has_quota || !MayStartOneDay(gang);
    Wait wait{&gang, is_for_room ? Obstacle::kRoom : Obstacle::kQuota};
    const GangRecord* const ahead = quota_turns_.HinderedBy(gang);
    wait.is_first =
        ahead == nullptr && (is_for_room ? turn.is_free() : !quota_turns_.FirstOf(*gang.queue));
    if (has_quota && MayFitNow(state_.nodes(), gang)) {
      if (StartsNow(gang, ahead, turn, &wait)) {
        return true;
      }
    } else if (ahead != nullptr && (has_quota || !is_for_room)) {
      wait = WaitsForQuotaOf(gang, *ahead);
    }
    // Who only passes has nobody go: it would start later, and end too late.
    if (wait.obstacle != Obstacle::kTurn && ahead == nullptr) {
      const bool is_in_turn = backfill_.HeadsOf(*gang.queue) == nullptr;
      if (is_in_turn && Preempts(gang, turn, &wait)) {
        return true;
      }
      if (!is_in_turn && MayPreempt(state_, gang)) {
        out_of_turn_[&gang] = waits_.size();
      }
    }
    const bool holds_back = gang.request.standing != Standing::kAside &&
                            (!MayStartOneDay(gang) || hold_backs_.HoldsBack(gang));
    if (holds_back && has_quota) {
      turn.Wait(gang);
    } else if (holds_back && wait.obstacle == Obstacle::kQuota) {
      quota_turns_.Wait(gang);
    }
    wait.is_first = wait.is_first && wait.obstacle != Obstacle::kTurn && starts_left_ > 0;
    starts_left_ -= wait.is_first ? 1 : 0;
    waits_.push_back(std::move(wait));
    return MayStartOneDay(gang);
  }

  // Whether the gang fits nodes without other gangs, or asks for more.
  bool MayStartOneDay(const GangRecord& gang) const {
    return Asks(gang.request) || MayFitEmpty(state_.nodes(), gang);
  }

  // Whether the gang, which may fit, starts in its turn, for which nobody ahead waits longer, or in
  // a gap, for which no head does; one that is never stopped does where both hold.
  bool StartsNow(const GangRecord& gang, const GangRecord* ahead, TurnKeeper& turn, Wait* wait) {
    const Backfill::Heads* const heads = backfill_.HeadsOf(*gang.queue);
    const bool is_stopped = EndOf(gang.request, statement_.now()).has_value();
    const bool is_for_all = heads == nullptr || !is_stopped;
    if (is_for_all && (ahead != nullptr || turn.is_long())) {
      *wait = ahead != nullptr ? WaitsForQuotaOf(gang, *ahead)
                               : Wait{&gang, Obstacle::kTurn, turn.DescribeLine()};
      return false;
    }
    if (const GangRecord* const head = heads == nullptr ? nullptr : backfill_.WhyHopeless(gang)) {
      *wait = WaitsBehindHead(gang, *head);
      return false;
    }
    PlaceResult place = PlaceGang(state_.nodes(), gang, {nullptr, true, options_.search_steps_max});
    wait->reached_limit = place.reached_limit;
    if (!place.pods) {
      return false;
    }
    Unschedulable refusal;
    if (is_for_all) {
      place = turn.PlaceInTurn(gang, *std::move(place.pods), &refusal);
    }
    if (!place.pods) {
      *wait = {&gang, Obstacle::kTurn, std::move(refusal.shortfall)};
      return false;
    }
    if (heads != nullptr) {
      return StartsInGap(gang, *std::move(place.pods), wait);
    }
    Start(gang, *std::move(place.pods));
    return true;
  }

  bool StartsInGap(const GangRecord& gang, PlacedPods pods, Wait* wait) {
    if (const GangRecord* const head = backfill_.Start(gang, pods)) {
      *wait = WaitsBehindHead(gang, *head);
      return false;
    }
    result_.grants.push_back({gang.request.name, std::move(pods)});
    return true;
  }

  Wait WaitsBehindHead(const GangRecord& gang, const GangRecord& head) const {
    return &head == quota_turns_.FirstOf(*gang.queue) ? WaitsForQuotaOf(gang, head)
                                                      : WaitsBehind(gang, head);
  }

  static Wait WaitsBehind(const GangRecord& gang, const GangRecord& ahead) {
    return {
        &gang,
        Obstacle::kTurn,
        "waits behind " + ahead.request.name + ", which needs " + DescribeNeed(ahead.request.gang)};
  }

  static Wait WaitsForQuotaOf(const GangRecord& gang, const GangRecord& ahead) {
    Wait wait = WaitsBehind(gang, ahead);
    wait.text += " of the queue's quota";
    return wait;
  }

  // Whether others go so that the gang may start, or it starts in their place. Gangs alike that
  // come later in the round fare no better than one for which nobody could be found.
  bool Preempts(const GangRecord& gang, TurnKeeper& turn, Wait* wait) {
    if (gang.request.standing != Standing::kReady || !MayPreempt(state_, gang)) {
      return false;  // nobody goes for one that could not start then
    }
    if (gang.request.fails_to_start) {
      wait->text =
          "no gang is evicted for this job, because the job did not start when it had room";
      return false;
    }
    const PodPermission& permission = gang.request.permission;
    if (permission.answer == PodsAllowed::kNo && statement_.now() < permission.until) {
      wait->text = "no gang is evicted for this job: " + permission.words;
      LookAgainAt(permission.until, &result_);
      return false;
    }
    const Alike alike{*gang.queue,
                      gang.request.priority,
                      gang.shapes,
                      gang.pod_count,
                      gang.request.topology.required,
                      gang.request.topology.apart};
    if (const auto known = hopeless_.find(alike); known != hopeless_.end()) {
      wait->text = known->second;
      return false;
    }
    if (const auto before = memory_.searched.find(gang.serial); before != memory_.searched.end()) {
      wait->is_left_out = true;
      LookAgainAt(before->second, &result_);
      return false;
    }
    if (searches_left_ == 0) {
      ++left_out_count_;
      wait->is_left_out = true;
      return false;
    }
    if (auto found = FindTakeOver(&statement_, gang, awaited_, options_.search_steps_max)) {
      return TakesOver(gang, *std::move(found), turn, wait);
    }
    PreemptionResult found = FindVictims(&statement_, gang, options_.search_steps_max);
    searches_left_ -= found.is_proved_by_counting && state_.claiming().empty() ? 0 : 1;
    searched_.emplace(gang.serial, found.look_again_at);
    LookAgainAt(found.look_again_at, &result_);
    if (!found.preemption) {
      wait->text = found.why_not;
      hopeless_.emplace(alike, std::move(found.why_not));
      return false;
    }
    return HasOthersGo(gang, *std::move(found.preemption), turn, wait);
  }

  // Where the shortest came first, others go all the same for who is next in turn.
  void HaveOthersGoInTurn() {
    if (out_of_turn_.empty()) {
      return;
    }
    const std::set<const GangRecord*> in_line(line_.begin(), line_.end());
    std::map<QueueIndex, TurnKeeper> turns;
    QuotaTurns quota_turns(state_);
    std::set<std::size_t> done;
    TurnOrder order(state_);
    while (const GangRecord* const gang = order.Next()) {
      if (!gang->queue || backfill_.HeadsOf(*gang->queue) == nullptr) {
        continue;
      }
      TurnKeeper& turn = turns.try_emplace(*gang->queue, state_, &memory_.later).first->second;
      const auto found = out_of_turn_.find(gang);
      if (found != out_of_turn_.end() && quota_turns.HinderedBy(*gang) == nullptr) {
        Wait wait = waits_[found->second];
        if (Preempts(*gang, turn, &wait)) {
          done.insert(found->second);
          continue;
        }
        waits_[found->second] = std::move(wait);
      }
      if (!in_line.contains(gang)) {
        continue;
      }
      if (gang->request.standing == Standing::kPausing ||
          state_.queues().Allows(*gang->queue, gang->total)) {
        turn.Wait(*gang);
      } else {
        quota_turns.Wait(*gang);
      }
    }
    for (auto index = done.rbegin(); index != done.rend(); ++index) {
      waits_.erase(waits_.begin() + static_cast<std::ptrdiff_t>(*index));
    }
  }

  bool HasOthersGo(const GangRecord& gang, Preemption preemption, TurnKeeper& turn, Wait* wait) {
    if (IsHindered(gang, preemption.pods, turn, wait)) {
      return false;
    }
    if (!IsPermitted(gang)) {
      return AsksFirst(gang, std::move(preemption.victims), wait);
    }
    for (const std::string& victim : preemption.victims) {
      result_.evictions.push_back({victim, gang.request.name});
      statement_.Do({OperationKind::kEvict, victim, gang.request.name});
    }
    statement_.Do({OperationKind::kClaim, gang.request.name, {}, std::move(preemption.pods)});
    return true;
  }

  // Whether the API server has said that it would create the gang's pods. What it said of the
  // namespace's quota no longer holds once another gang there has had others go.
  bool IsPermitted(const GangRecord& gang) const {
    const PodPermission& permission = gang.request.permission;
    return permission.answer == PodsAllowed::kAssumed ||
           (permission.answer == PodsAllowed::kYes && statement_.now() < permission.until &&
            std::ranges::none_of(state_.claiming(), [&](const GangRecord* other) {
              return other->space == gang.space && other->claimed_at >= permission.asked_at;
            }));
  }

  bool AsksFirst(const GangRecord& gang, std::vector<std::string> victims, Wait* wait) {
    wait->text = "other gangs are evicted for this job once the API server accepts this job's pods";
    result_.permissions_needed.push_back({gang.request.name, std::move(victims)});
    return false;
  }

  // Those that were left out come before all for whom others were looked for already. What has
  // changed since is looked at when all have had their turns.
  void RememberSearches() {
    if (left_out_count_ > 0) {
      if (memory_.searched.empty()) {
        memory_.searched_since = news_;
      }
      memory_.searched.merge(searched_);
    } else if (!memory_.searched.empty()) {
      memory_.searched.clear();
      result_.outdated_count += memory_.searched_since == news_ ? 0 : 1;
    }
    result_.outdated_count += left_out_count_;
  }

  // Whether the gang would start before its turn there.
  static bool IsHindered(const GangRecord& gang,
                         const PlacedPods& pods,
                         TurnKeeper& turn,
                         Wait* wait) {
    if (const GangRecord* const hindered = turn.HinderedBy(gang, pods)) {
      *wait = WaitsBehind(gang, *hindered);
      return true;
    }
    return false;
  }

  // Whether it starts where room is kept for others. Those have it until it can, so that nobody
  // else takes it in between.
  bool TakesOver(const GangRecord& gang, TakeOver found, TurnKeeper& turn, Wait* wait) {
    if (IsHindered(gang, found.pods, turn, wait)) {
      return false;
    }
    if (!found.is_free) {
      wait->text = "this job takes the room that is reserved for " + found.claimants.front() +
                   " when other gangs have freed this room";
      awaited_.insert(found.claimants.begin(), found.claimants.end());
      return false;
    }
    if (!IsPermitted(gang)) {
      return AsksFirst(gang, {}, wait);
    }
    for (const std::string& claimant : found.claimants) {
      statement_.Do({OperationKind::kUnclaim, claimant});
      waits_.push_back({state_.Find(claimant), Obstacle::kRoom});
    }
    Start(gang, std::move(found.pods));
    return true;
  }

  using Alike =
      std::tuple<QueueIndex, int64_t, std::vector<ShapeIndex>, int64_t, std::string, std::string>;

  const ClusterState& state_;
  const RoundOptions& options_;
  RoundMemory& memory_;
  uint64_t news_;
  Statement statement_;
  std::map<QueueIndex, TurnKeeper> turns_;
  QuotaTurns quota_turns_;
  ReservationBook reservations_;
  Backfill backfill_;
  HoldBacks hold_backs_;
  std::size_t searches_left_;
  std::size_t left_out_count_ = 0;
  std::map<uint64_t, std::optional<WallTime>> searched_;  // as in the memory
  std::map<Alike, std::string> hopeless_;                 // with what there is to add
  std::vector<const GangRecord*> claimants_;              // of rounds before, whose claims hold
  std::vector<const GangRecord*> line_;                   // in the order of turns
  std::map<const GangRecord*, std::size_t> out_of_turn_;  // who may have others go; its wait
  std::set<std::string> awaited_;                         // those whose room another gets
  std::vector<Wait> waits_;
  int starts_left_ = kStartsToldMax;
  RoundResult result_;
};

}  // namespace

RoundResult Round(ClusterState* state,
                  WallTime now,
                  RoundMemory* memory,
                  const RoundOptions& options) {
  return RoundRun(state, now, memory, options).Run();
}

}  // namespace lockstep::control
