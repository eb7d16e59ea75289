#include "operator/scheduler/round.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "operator/scheduler/ask_turn.h"
#include "operator/scheduler/kept_room.h"
#include "operator/scheduler/placer.h"
#include "operator/scheduler/preemption.h"
#include "operator/scheduler/quota_turn.h"
#include "operator/scheduler/reservation_book.h"
#include "operator/scheduler/take_over.h"
#include "operator/scheduler/turn_order.h"
#include "operator/scheduler/why.h"

namespace lockstep::control {
namespace {

// Gangs that are told when they start, each the first of its queue. Choice: a millisecond's worth
// on thousands of nodes; who comes after that is not told.
constexpr int kStartsToldMax = 8;

// What a gang waits for, before it is put into words.
enum class Obstacle { kPriorityClass, kQueueName, kNamespace, kTurn, kQuota, kRoom };

Obstacle ObstacleOf(Constraint constraint) {
  return constraint == Constraint::kPriorityClass ? Obstacle::kPriorityClass
         : constraint == Constraint::kNamespace   ? Obstacle::kNamespace
         : constraint == Constraint::kQueue       ? Obstacle::kTurn
         : constraint == Constraint::kQuota       ? Obstacle::kQuota
                                                  : Obstacle::kRoom;
}

struct Wait {
  const GangRecord* gang = nullptr;
  Obstacle obstacle = Obstacle::kRoom;
  std::string text{};  // of kRoom and kQuota: what there is to add; else all
  bool reached_limit = false;
  bool is_first = false;     // of its queue, and is told when it starts
  bool is_left_out = false;  // whether others might go for it is not looked at in this round
};

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
        searches_left_(options.searches_max) {}

  RoundResult Run() {
    SettleClaims();
    TurnOrder order(state_);
    while (const GangRecord* const gang = order.Next()) {
      if (Consider(*gang) && gang->request.standing != Standing::kAside) {
        line_.push_back(gang);
      }
    }
    StartClaimants();
    NumberLine();
    Explain();
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
      if (ProblemOfQueue(*gang) || !gang->request.missing_class.empty() || !StillHasQuota(*gang) ||
          !MayComeFree(state_, *gang)) {
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

  // Who started is not in line any more.
  void NumberLine() {
    std::map<QueueIndex, int64_t> lengths;
    for (const GangRecord* const gang : line_) {
      if (gang->state != GangState::kRunning) {
        result_.line.push_back({gang->request.name, ++lengths[*gang->queue]});
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

  // Why the gang cannot start in its queue at all; empty: it is served there.
  std::optional<Wait> ProblemOfQueue(const GangRecord& gang) const {
    const std::string& name = gang.request.queue;
    const auto say = [&](Obstacle obstacle, const std::string& what) {
      return Wait{
          &gang, obstacle, "queue " + (name.empty() ? std::string(kDefaultQueue) : name) + what};
    };
    if (const std::string* const why = state_.WhyUnserved(name)) {
      return say(Obstacle::kQueueName, " is not served: " + *why);
    }
    if (!gang.queue) {
      return say(Obstacle::kQueueName, " does not exist");
    }
    if (!state_.queues().ChildrenOf(*gang.queue).empty()) {
      return say(Obstacle::kQueueName, " has queues below it: one of those is to be named");
    }
    if (const auto closed = state_.queues().ClosedTo(*gang.queue, gang.space)) {
      return say(Obstacle::kNamespace, *closed);
    }
    return std::nullopt;
  }

  // Whether its queue serves it.
  bool Consider(const GangRecord& gang) {
    if (auto problem = ProblemOfQueue(gang)) {
      waits_.push_back(*std::move(problem));
      return false;
    }
    if (!gang.request.missing_class.empty()) {
      waits_.push_back({&gang, Obstacle::kPriorityClass, gang.request.missing_class});
      return false;
    }
    TurnKeeper& turn = turns_.try_emplace(*gang.queue, state_, &memory_.later).first->second;
    if (gang.request.standing == Standing::kPausing) {
      turn.Wait(gang);
      return true;
    }
    const bool has_quota = state_.queues().Allows(*gang.queue, gang.total);
    // What could never run at all is told so, whatever its queue may hold. What asks for nodes may
    // run one day, and its quota decides first.
    const bool is_for_room =
        has_quota || (!Asks(gang.request) && !MayFitEmpty(state_.nodes(), gang));
    Wait wait{&gang, is_for_room ? Obstacle::kRoom : Obstacle::kQuota};
    const GangRecord* const ahead = quota_turns_.HinderedBy(gang);
    wait.is_first =
        ahead == nullptr && (is_for_room ? turn.is_free() : quota_turns_.IsFree(*gang.queue));
    if (ahead != nullptr &&
        !(has_quota && MayFitNow(state_.nodes(), gang) && reservations_.IsStopped(gang) &&
          reservations_.EndsBefore(gang, *ahead))) {
      wait = {&gang,
              Obstacle::kTurn,
              "waits behind " + ahead->request.name + ", which needs " +
                  DescribeNeed(ahead->request.gang) + " of the queue's quota"};
    } else if (has_quota && MayFitNow(state_.nodes(), gang)) {
      PlaceResult place =
          PlaceGang(state_.nodes(), gang, {nullptr, true, options_.search_steps_max});
      wait.reached_limit = place.reached_limit;
      if (place.pods) {
        Unschedulable refusal;
        const std::optional<PlacedPods> first =
            reservations_.IsStopped(gang) ? place.pods : std::nullopt;
        PlaceResult in_turn = turn.PlaceInTurn(gang, *std::move(place.pods), &refusal);
        const bool passes = !in_turn.pods && first && EndsInTime(gang, *first, turn);
        if (passes) {
          in_turn.pods = first;
        }
        if (in_turn.pods) {
          Start(gang, *std::move(in_turn.pods));
          if (passes || ahead != nullptr) {
            reservations_.NotePassed();
          }
          return true;
        }
        wait = {&gang, Obstacle::kTurn, std::move(refusal.shortfall)};
      }
    }
    // Who only passes has nobody go: it would start later, and end too late.
    if (wait.obstacle != Obstacle::kTurn && ahead == nullptr && Preempts(gang, turn, &wait)) {
      return true;
    }
    if (has_quota && gang.request.standing != Standing::kAside) {
      turn.Wait(gang);
    } else if (wait.obstacle == Obstacle::kQuota && gang.request.standing != Standing::kAside) {
      quota_turns_.Wait(gang);
    }
    wait.is_first = wait.is_first && wait.obstacle != Obstacle::kTurn && starts_left_ > 0;
    starts_left_ -= wait.is_first ? 1 : 0;
    waits_.push_back(std::move(wait));
    return true;
  }

  // Whether whoever ahead would have to wait for the gang does not start before that is stopped.
  bool EndsInTime(const GangRecord& gang, const PlacedPods& pods, TurnKeeper& turn) {
    const auto hindered = turn.AllHinderedBy(gang, pods);
    return hindered && std::all_of(hindered->begin(), hindered->end(), [&](const auto* waiting) {
             return reservations_.EndsBefore(gang, *waiting);
           });
  }

  // Whether others go so that the gang may start, or it starts in their place. Gangs alike that
  // come later in the round fare no better than one for which nobody could be found.
  bool Preempts(const GangRecord& gang, TurnKeeper& turn, Wait* wait) {
    if (gang.request.standing != Standing::kReady || !MayPreempt(state_, gang)) {
      return false;  // nobody goes for one that could not start then
    }
    if (gang.request.fails_to_start) {
      wait->text = "nobody goes for it any more, as it has not started where it had room";
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
      LookAgainAt(before->second);
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
    LookAgainAt(found.look_again_at);
    if (!found.preemption) {
      wait->text = found.why_not;
      hopeless_.emplace(alike, std::move(found.why_not));
      return false;
    }
    return HasOthersGo(gang, *std::move(found.preemption), turn, wait);
  }

  void LookAgainAt(std::optional<WallTime> when) {
    if (when) {
      result_.look_again_at = std::min(result_.look_again_at.value_or(*when), *when);
    }
  }

  bool HasOthersGo(const GangRecord& gang, Preemption preemption, TurnKeeper& turn, Wait* wait) {
    if (IsHindered(gang, preemption.pods, turn, wait)) {
      return false;
    }
    for (const std::string& victim : preemption.victims) {
      result_.evictions.push_back({victim, gang.request.name});
      statement_.Do({OperationKind::kEvict, victim, gang.request.name});
    }
    statement_.Do({OperationKind::kClaim, gang.request.name, {}, std::move(preemption.pods)});
    return true;
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
    const GangRecord* const hindered = turn.HinderedBy(gang, pods);
    if (hindered != nullptr) {
      *wait = {&gang,
               Obstacle::kTurn,
               "waits behind " + hindered->request.name + ", which needs " +
                   DescribeNeed(hindered->request.gang)};
    }
    return hindered != nullptr;
  }

  // Whether it starts where room is kept for others. Those have it until it can, so that nobody
  // else takes it in between.
  bool TakesOver(const GangRecord& gang, TakeOver found, TurnKeeper& turn, Wait* wait) {
    if (IsHindered(gang, found.pods, turn, wait)) {
      return false;
    }
    if (!found.is_free) {
      wait->text =
          "gets the room that is kept for " + found.claimants.front() + " when others have left it";
      awaited_.insert(found.claimants.begin(), found.claimants.end());
      return false;
    }
    for (const std::string& claimant : found.claimants) {
      statement_.Do({OperationKind::kUnclaim, claimant});
      waits_.push_back({state_.Find(claimant), Obstacle::kRoom});
    }
    Start(gang, std::move(found.pods));
    return true;
  }

  // Puts into words what is new, and some of those that wait for something else now, or whose
  // figures may have changed: those first that were looked at longest ago.
  void Explain() {
    FindWhoMayNotAsk();
    std::vector<const Wait*> changed;
    std::vector<const Wait*> stale;
    std::set<const Wait*> chosen;
    for (const Wait& wait : waits_) {
      const auto& told = wait.gang->told;
      if (!told || wait.gang->request.name == options_.asked) {
        chosen.insert(&wait);
      } else if (wait.is_left_out) {
        continue;  // what it was told stands until then
      } else if (ObstacleOf(told->constraint) != ObstacleOf(wait) ||
                 told->not_asked.empty() == may_not_ask_.contains(wait.gang->request.name)) {
        changed.push_back(&wait);
      } else if (wait.gang->told_at != news_ || IsOver(told->estimated_start)) {
        stale.push_back(&wait);
      }
    }
    ChooseOldest(std::move(changed), options_.reworded_max, &chosen);
    ChooseOldest(std::move(stale), options_.refreshed_max, &chosen);
    for (const Wait& wait : waits_) {
      if (!chosen.contains(&wait)) {
        LookWhenOver(*wait.gang->told);
        continue;
      }
      Unschedulable why = InWords(wait);
      LookWhenOver(why);
      if (wait.gang->told == why) {
        result_.confirmed.push_back(wait.gang->request.name);
      } else {
        result_.refusals.push_back({wait.gang->request.name, std::move(why)});
      }
    }
  }

  static bool Asks(const GangRequest& request) { return request.asking.stage != AskStage::kNever; }

  // By the state at the end of the round, too.
  void FindWhoMayNotAsk() {
    std::vector<const GangRecord*> asking;
    for (const Wait& wait : waits_) {
      const GangRequest& request = wait.gang->request;
      if (wait.obstacle == Obstacle::kRoom && Asks(request) &&
          request.standing == Standing::kReady) {
        asking.push_back(wait.gang);
      }
    }
    may_not_ask_ = WhoMayNotAsk(state_.queues(), std::move(asking));
  }

  bool IsOver(const std::optional<WallTime>& start) const {
    return start && *start <= statement_.now();
  }

  // A start that was learnt may pass by without anything new, and is to be told anew then.
  void LookWhenOver(const Unschedulable& told) {
    if (!state_.expecting().empty() && !IsOver(told.estimated_start)) {
      LookAgainAt(told.estimated_start);
    }
  }

  void ChooseOldest(std::vector<const Wait*> waits,
                    std::size_t count_max,
                    std::set<const Wait*>* chosen) {
    std::stable_sort(waits.begin(), waits.end(), [](const Wait* a, const Wait* b) {
      return a->gang->told_at < b->gang->told_at;
    });
    const std::size_t count = std::min(waits.size(), count_max);
    chosen->insert(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(count));
    result_.outdated_count += waits.size() - count;
  }

  static Obstacle ObstacleOf(const Wait& wait) {
    return wait.obstacle == Obstacle::kQueueName ? Obstacle::kQuota : wait.obstacle;
  }

  static Obstacle ObstacleOf(Constraint constraint) { return control::ObstacleOf(constraint); }

  // By the state at the end of the round: what others were granted meanwhile is not free any more.
  Unschedulable InWords(const Wait& wait) {
    if (wait.obstacle == Obstacle::kTurn) {
      return {Constraint::kQueue, wait.text};
    }
    if (wait.obstacle == Obstacle::kQueueName) {
      return {Constraint::kQuota, wait.text};
    }
    if (wait.obstacle == Obstacle::kNamespace) {
      return {Constraint::kNamespace, wait.text};
    }
    if (wait.obstacle == Obstacle::kPriorityClass) {
      return {Constraint::kPriorityClass, wait.text};
    }
    Unschedulable why;
    const auto quota = state_.queues().Check(*wait.gang->queue, wait.gang->total);
    if (wait.obstacle == Obstacle::kQuota) {
      why = {Constraint::kQuota,
             quota ? quota->text : "its queue may hold more since others of it were asked to go"};
    } else {
      why = WhyNoRoom(state_.nodes(), *wait.gang, wait.reached_limit);
      if (const auto held = may_not_ask_.find(wait.gang->request.name);
          held != may_not_ask_.end()) {
        why.not_asked = held->second;
      }
    }
    if (wait.is_first) {
      reservations_.AddStart(*wait.gang, &why);
    }
    if (!wait.text.empty()) {
      why.shortfall += "; " + wait.text;
    }
    return why;
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
  std::size_t searches_left_;
  std::size_t left_out_count_ = 0;
  std::map<uint64_t, std::optional<WallTime>> searched_;  // as in the memory
  std::map<Alike, std::string> hopeless_;                 // with what there is to add
  std::vector<const GangRecord*> claimants_;              // of rounds before, whose claims hold
  std::vector<const GangRecord*> line_;                   // in the order of turns
  std::set<std::string> awaited_;                         // those whose room another gets
  std::vector<Wait> waits_;
  std::map<std::string, std::string> may_not_ask_;  // gangs that lack room, with why
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
