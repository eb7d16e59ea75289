#include "operator/scheduler/placement/reservation.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/saturating.h"
#include "operator/scheduler/placement/placer.h"

namespace lockstep::control {
namespace {

struct End {
  WallTime at;
  const GangRecord* gang = nullptr;
  bool is_learnt = false;
};

bool EndsFirst(const End& a, const End& b) {
  return std::tie(a.at, a.gang->request.name) < std::tie(b.at, b.gang->request.name);
}

// Of one that has run for longer than it was thought to.
End CorrectedEnd(const GangRecord& gang, WallTime now) {
  std::chrono::seconds run_time = gang.request.past_runs.longest;
  while (gang.run.started_at + run_time <= now) {
    run_time *= 2;
  }
  const WallTime end = gang.run.started_at + run_time;
  const WallTime stop = gang.run.stops_at;
  return stop == WallTime{} || end < stop ? End{end, &gang, true} : End{stop, &gang, false};
}

// Whether the gang, which holds room, is gone by then. `by`: not kCorrections.
bool IsGoneBy(WallTime moment, const GangRecord& gang, EndsBy by, WallTime now) {
  if (gang.state != GangState::kRunning) {
    return gang.state == GangState::kLeaving;
  }
  const std::optional<WallTime> learnt = LearntEndOf(gang);
  const WallTime end =
      by == EndsBy::kPastRuns && learnt && *learnt > now ? *learnt : gang.run.stops_at;
  return end != WallTime{} && end <= moment;
}

// What the node has left when those are gone that are gone by then. `stopped` is gone only when it
// is stopped.
NodeFree FreeBy(WallTime moment,
                const ClusterState& state,
                NodeIndex node,
                EndsBy by,
                const GangRecord* stopped,
                WallTime now) {
  NodeFree free = state.nodes().FreeNow(node);
  for (const NodeHolder& holder : state.HoldersOf(node)) {
    if (IsGoneBy(moment, *holder.gang, holder.gang == stopped ? EndsBy::kLimits : by, now)) {
      free.free = GivenBack(free.free, holder.usage->resources);
      free.pods_free = AddSaturated(free.pods_free, holder.usage->pod_count);
    }
  }
  return free;
}

// The running gangs by when they will have ended, the first first; `stopped` when it is stopped.
class Ends {
 public:
  Ends(const ClusterState& state, EndsBy by, const GangRecord* stopped, WallTime now)
      : state_(state), by_(by), stopped_(stopped), now_(now), stopping_(state.stopping().begin()) {
    expected_ = by == EndsBy::kLimits ? state.expecting().end() : state.expecting().begin();
    for (; HasExpected() && IsLate(**expected_); ++expected_) {
      if (by == EndsBy::kCorrections) {
        late_.push_back(CorrectedEnd(**expected_, now));
      }
    }
    std::sort(late_.begin(), late_.end(), EndsFirst);
  }

  // Null: there are no more.
  std::optional<End> Next() {
    while (stopping_ != state_.stopping().end() && IsLearntOf(**stopping_)) {
      ++stopping_;
    }
    if (HasExpected() && *expected_ == stopped_) {
      ++expected_;
    }
    std::optional<End> first;
    const auto consider = [&](const End& end) {
      first = first && EndsFirst(*first, end) ? *first : end;
    };
    if (stopping_ != state_.stopping().end()) {
      consider({(*stopping_)->run.stops_at, *stopping_, false});
    }
    if (HasExpected()) {
      consider({*LearntEndOf(**expected_), *expected_, true});
    }
    if (late_count_ < late_.size()) {
      consider(late_[late_count_]);
    }
    if (first) {
      Pass(*first->gang);
    }
    return first;
  }

 private:
  bool HasExpected() const { return expected_ != state_.expecting().end(); }

  bool IsLate(const GangRecord& gang) const { return *LearntEndOf(gang) <= now_; }

  // Whether its limit is not what counts, or not in its place among limits.
  bool IsLearntOf(const GangRecord& gang) const {
    return by_ != EndsBy::kLimits && &gang != stopped_ && LearntEndOf(gang) &&
           (by_ == EndsBy::kCorrections || !IsLate(gang));
  }

  void Pass(const GangRecord& gang) {
    if (HasExpected() && *expected_ == &gang) {
      ++expected_;
    } else if (late_count_ < late_.size() && late_[late_count_].gang == &gang) {
      ++late_count_;
    } else {
      ++stopping_;
    }
  }

  const ClusterState& state_;
  EndsBy by_;
  const GangRecord* stopped_;
  WallTime now_;
  ClusterState::StopSet::const_iterator stopping_;
  ClusterState::StopSet::const_iterator expected_;  // behind those that are late
  std::vector<End> late_;
  std::size_t late_count_ = 0;  // that have been passed
};

// The running gangs that have ended by some moment are looked away from. Meanwhile the state's
// lists of gangs stay as they are.
class Future {
 public:
  Future(Statement* statement,
         const GangRecord& gang,
         EndsBy by,
         const GangRecord* stopped,
         int64_t search_steps_max,
         int64_t* walks_left)
      : statement_(*statement),
        gang_(gang),
        search_steps_max_(search_steps_max),
        walks_left_(*walks_left),
        ends_(statement->state(), by, stopped, statement->now()) {
    for (const GangRecord* const leaving : statement_.state().leaving()) {
      statement_.Vacate(*leaving);
    }
  }

  ~Future() {
    GoTo(0);
    for (const GangRecord* const leaving : statement_.state().leaving()) {
      statement_.Reoccupy(*leaving);
    }
  }

  Future(const Future&) = delete;
  Future& operator=(const Future&) = delete;

  // The fewest that have to have ended: what fits beside some fits beside fewer.
  std::optional<Reservation> FirstFit() {
    if (Fits(0)) {
      return Reservation{statement_.now(), nullptr, UsesNow()};
    }
    std::size_t too_few = 0;
    std::size_t enough = CountUpTo(1);
    while (enough > too_few && MayWalkTo(enough) && !Fits(enough)) {
      too_few = enough;
      enough = CountUpTo(2 * enough);
    }
    if (enough == too_few || !MayWalkTo(enough)) {
      return std::nullopt;
    }
    while (enough - too_few > 1) {
      const std::size_t middle = too_few + (enough - too_few) / 2;
      (Fits(middle) ? enough : too_few) = middle;
    }
    const WallTime at = std::max(known_[enough - 1].at, statement_.now());
    const GangRecord* const learnt_of = LearntOf(enough);
    GoTo(enough);
    return Reservation{at, learnt_of, UsesNow()};
  }

  // At a place where it fits by then; null: it does not.
  std::optional<std::map<NodeIndex, NodeUsage>> UsesBy(WallTime moment) {
    std::size_t count = 0;
    while (MayWalkTo(count) && CountUpTo(count + 1) > count && known_[count].at <= moment) {
      ++count;
    }
    return MayWalkTo(count) && Fits(count) ? std::optional(UsesNow()) : std::nullopt;
  }

 private:
  // So many, or all that there are.
  std::size_t CountUpTo(std::size_t count) {
    while (known_.size() < count) {
      const std::optional<End> next = ends_.Next();
      if (!next) {
        break;
      }
      known_.push_back(*next);
    }
    return std::min(count, known_.size());
  }

  bool Fits(std::size_t ended_count) {
    GoTo(ended_count);
    return Fits();
  }

  // Whether it may be looked at what is when so many have ended.
  bool MayWalkTo(std::size_t ended_count) const {
    return static_cast<int64_t>(ended_count) - static_cast<int64_t>(ended_count_) <= walks_left_;
  }

  bool Fits() {
    const ClusterState& state = statement_.state();
    return MayFitNow(state.nodes(), gang_) && state.queues().Allows(*gang_.queue, gang_.total) &&
           Place().has_value();
  }

  std::optional<PlacedPods> Place() const {
    return PlaceGang(statement_.state().nodes(), gang_, {nullptr, true, search_steps_max_}).pods;
  }

  // Precondition: it fits.
  std::map<NodeIndex, NodeUsage> UsesNow() const {
    return SumByNode(statement_.state().HoldsOf(gang_, *Place()));
  }

  // The last of which it was learnt when it ends, if those have to have ended for it to fit.
  const GangRecord* LearntOf(std::size_t enough) {
    GoTo(enough);
    std::vector<const GangRecord*> learnt;
    for (std::size_t i = 0; i < enough; ++i) {
      if (known_[i].is_learnt) {
        learnt.push_back(known_[i].gang);
      }
    }
    if (learnt.empty() || known_[enough - 1].is_learnt) {
      return learnt.empty() ? nullptr : learnt.back();
    }
    for (const GangRecord* const gang : learnt) {
      statement_.Reoccupy(*gang);
    }
    const bool fits = Fits();
    for (const GangRecord* const gang : learnt) {
      statement_.Vacate(*gang);
    }
    return fits ? nullptr : learnt.back();
  }

  void GoTo(std::size_t ended_count) {
    for (; ended_count_ < ended_count; ++ended_count_, --walks_left_) {
      statement_.Vacate(*known_[ended_count_].gang);
    }
    for (; ended_count_ > ended_count; --ended_count_) {
      statement_.Reoccupy(*known_[ended_count_ - 1].gang);
    }
  }

  Statement& statement_;
  const GangRecord& gang_;
  int64_t search_steps_max_;
  int64_t& walks_left_;
  Ends ends_;
  std::vector<End> known_;  // as far as was looked
  std::size_t ended_count_ = 0;
};

}  // namespace

std::optional<Reservation> ReservationFor(Statement* statement,
                                          const GangRecord& gang,
                                          EndsBy by,
                                          int64_t search_steps_max,
                                          int64_t* walks_left) {
  return Future(statement, gang, by, nullptr, search_steps_max, walks_left).FirstFit();
}

bool StillFits(Reservation* reservation,
               const GangRecord& newcomer,
               Statement* statement,
               const GangRecord& waiting,
               EndsBy by,
               bool is_newcomer_learnt,
               int64_t search_steps_max,
               int64_t* walks_left) {
  const GangRecord* const stopped = is_newcomer_learnt ? nullptr : &newcomer;
  const ClusterState& state = statement->state();
  const bool spares_its_place =
      state.queues().Allows(*waiting.queue, waiting.total) &&
      std::all_of(newcomer.holds.begin(), newcomer.holds.end(), [&](const NodeHold& hold) {
        const auto use = reservation->uses.find(hold.node);
        return use == reservation->uses.end() ||
               HasRoomFor(FreeBy(reservation->at, state, hold.node, by, stopped, statement->now()),
                          use->second);
      });
  if (spares_its_place) {
    return true;
  }
  auto other =
      Future(statement, waiting, by, stopped, search_steps_max, walks_left).UsesBy(reservation->at);
  const bool fits = other.has_value();
  if (fits) {
    reservation->uses = *std::move(other);
  }
  return fits;
}

}  // namespace lockstep::control
