#include "operator/replay/backfill.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// Kinds of gangs that are kept although none of them waits: what is known of them is of use again.
constexpr std::size_t kKindsKept = 256;

// Whether the two ask for the same, whatever their pods are called.
bool AskTheSame(const std::vector<PodClass>& a, const std::vector<PodClass>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const PodClass& one, const PodClass& other) {
        return one.pods.size() == other.pods.size() && AskAlike(one, other);
      });
}

int64_t Seconds(std::chrono::milliseconds duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

// Thousandths. Waits of a year and weights of a million stay far from overflow.
int64_t Ratio(const BackfillGang& gang, WallTime now, std::chrono::milliseconds estimate_floor) {
  const int64_t over = std::max<int64_t>(1, Seconds(std::max(gang.estimate, estimate_floor)));
  return Seconds(now - gang.since) * gang.weight * 1'000 / over;
}

}  // namespace

Backfill::Order Backfill::OrderOf(const BackfillGang& gang) {
  return {gang.estimate, gang.since, gang.name};
}

void Backfill::Submit(const BackfillGang& gang) {
  LOCKSTEP_CHECK(waiting_.count(gang.name) == 0, gang.name + " waits already");
  LOCKSTEP_CHECK(!timeline_.is_running(gang.name), gang.name + " runs already");
  const KindIndex kind = KindOf(gang);
  kinds_[kind].waiting.insert(OrderOf(gang));
  waiting_.emplace(gang.name, Waiting{gang, kind});
}

Backfill::KindIndex Backfill::KindOf(const BackfillGang& gang) {
  auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return AskTheSame(kind.classes, gang.classes);
  });
  if (found == kinds_.end() && kinds_.size() >= kKindsKept) {
    found = std::find_if(
        kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.waiting.empty(); });
  }
  if (found == kinds_.end()) {
    found = kinds_.emplace(kinds_.end());
  }
  if (found->waiting.empty()) {
    *found = Kind{gang.classes, FitsWhole(empty_rooms_, gang.classes), {}};
  }
  return static_cast<KindIndex>(found - kinds_.begin());
}

void Backfill::Remove(const std::string& gang) {
  timeline_.End(gang);
  const auto found = waiting_.find(gang);
  if (found != waiting_.end()) {
    kinds_[found->second.kind].waiting.erase(OrderOf(found->second.gang));
    waiting_.erase(found);
  }
}

const Backfill::Waiting* Backfill::Head(WallTime now) const {
  const Waiting* oldest = nullptr;
  const Waiting* highest = nullptr;
  int64_t highest_ratio = 0;
  for (const auto& [name, waiting] : waiting_) {
    if (!kinds_[waiting.kind].is_possible) {
      continue;
    }
    const WallTime since = waiting.gang.since;
    if (oldest == nullptr || since < oldest->gang.since) {
      oldest = &waiting;
    }
    const int64_t ratio = Ratio(waiting.gang, now, options_.estimate_floor);
    if (highest == nullptr || ratio > highest_ratio ||
        (ratio == highest_ratio && since < highest->gang.since)) {
      highest = &waiting;
      highest_ratio = ratio;
    }
  }
  const bool is_starving =
      oldest != nullptr && now - oldest->gang.since >= options_.starvation_limit;
  return is_starving ? oldest : highest;
}

std::vector<BackfillStart> Backfill::Pass(WallTime now) {
  PassState pass;
  pass.now = now;
  pass.is_done.assign(kinds_.size(), true);
  bool has_candidate = false;
  for (KindIndex kind = 0; kind < kinds_.size(); ++kind) {
    if (!kinds_[kind].waiting.empty() && FitsWhole(timeline_.rooms(), kinds_[kind].classes)) {
      pass.is_done[kind] = false;
      has_candidate = true;
    }
  }
  if (has_candidate) {
    StartHeads(&pass);
    FillBeside(&pass);
  }
  return std::move(pass.starts);
}

void Backfill::StartHeads(PassState* pass) {
  while ((pass->head = Head(pass->now)) != nullptr) {
    const auto fills = PackWhole(timeline_.rooms(), pass->head->gang.classes);
    if (!fills) {
      return;
    }
    Start(*pass->head, *fills, pass);
  }
}

void Backfill::FillBeside(PassState* pass) {
  if (pass->head == nullptr) {
    return;
  }
  while (const Waiting* waiting = Shortest(*pass)) {
    const auto fills = PackWhole(timeline_.rooms(), waiting->gang.classes);
    if (fills && !pass->opening) {
      pass->opening = timeline_.EarliestOpening(pass->head->gang.classes, pass->now);
      LOCKSTEP_CHECK(pass->opening, "a head that would not fit an empty cluster");
    }
    if (fills && LeavesHead(*waiting, *fills, pass)) {
      Start(*waiting, *fills, pass);
    } else {
      // Others of its kind take as long at least, and rooms only shrink.
      pass->is_done[waiting->kind] = true;
    }
  }
}

const Backfill::Waiting* Backfill::Shortest(const PassState& pass) const {
  const Order* shortest = nullptr;
  for (KindIndex kind = 0; kind < kinds_.size(); ++kind) {
    const std::set<Order>& waiting = kinds_[kind].waiting;
    if (!pass.is_done[kind] && !waiting.empty() &&
        (shortest == nullptr || *waiting.begin() < *shortest)) {
      shortest = &*waiting.begin();
    }
  }
  return shortest == nullptr ? nullptr : &waiting_.at(std::get<2>(*shortest));
}

// Whether the head still has room at its opening when this one starts now. If so, what it holds
// then is taken out of the opening.
bool Backfill::LeavesHead(const Waiting& waiting,
                          const std::vector<Fill>& fills,
                          PassState* pass) const {
  if (pass->now + waiting.gang.estimate <= pass->opening->at) {
    return true;
  }
  std::vector<NodeRoom> rooms = pass->opening->rooms;
  for (const RoomHold& hold : HoldsOfFills(waiting.gang.classes, fills)) {
    TakeHold(hold, &rooms[hold.room]);
  }
  if (!FitsWhole(rooms, pass->head->gang.classes)) {
    return false;
  }
  pass->opening->rooms = std::move(rooms);
  return true;
}

void Backfill::Start(const Waiting& waiting, const std::vector<Fill>& fills, PassState* pass) {
  const BackfillGang& gang = waiting.gang;
  pass->starts.push_back({gang.name, PlanOf(gang.classes, timeline_.rooms(), fills)});
  timeline_.Begin(gang.name, pass->now + gang.estimate, HoldsOfFills(gang.classes, fills));
  kinds_[waiting.kind].waiting.erase(OrderOf(gang));
  waiting_.erase(pass->starts.back().gang);
}

std::optional<HeadReservation> Backfill::Reservation(WallTime now) const {
  const Waiting* head = Head(now);
  if (head == nullptr) {
    return std::nullopt;
  }
  const auto opening = timeline_.EarliestOpening(head->gang.classes, now);
  LOCKSTEP_CHECK(opening, "a head that would not fit an empty cluster");
  return HeadReservation{head->gang.name, opening->at};
}

}  // namespace lockstep::control
