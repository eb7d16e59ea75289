#include "operator/replay/timeline.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// A gang that is overdue goes on for so long at least.
constexpr std::chrono::seconds kOverdueLeft(1);

// Counts for each class how many of its pods the rooms hold, as rooms change one by one. Counts
// that suffice prove for one class that it fits; for several that it may.
class ClassCounts {
 public:
  ClassCounts(const std::vector<PodClass>& classes, const std::vector<NodeRoom>& rooms)
      : classes_(classes), counts_(classes.size(), 0) {
    for (const NodeRoom& room : rooms) {
      Add(room, 1);
    }
  }

  // The room joins (1), or leaves (-1) because it is about to change.
  void Add(const NodeRoom& room, int64_t sign) {
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      counts_[i] += sign * PodsThatFit(room, classes_[i], Wanted(i));
    }
  }

  bool is_enough() const {
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (counts_[i] < Wanted(i)) {
        return false;
      }
    }
    return true;
  }

 private:
  int64_t Wanted(std::size_t i) const { return static_cast<int64_t>(classes_[i].pods.size()); }

  const std::vector<PodClass>& classes_;
  std::vector<int64_t> counts_;
};

}  // namespace

void TakeHold(const RoomHold& hold, NodeRoom* room) {
  room->free = Sum(room->free, Times(hold.amounts, -1));
  if (room->pods_free != kPodsUnlimited) {
    room->pods_free -= hold.pod_count;
  }
}

void GiveBackHold(const RoomHold& hold, NodeRoom* room) {
  room->free = Sum(room->free, hold.amounts);
  if (room->pods_free != kPodsUnlimited) {
    room->pods_free += hold.pod_count;
  }
}

std::optional<std::vector<Fill>> PackWhole(std::vector<NodeRoom> rooms,
                                           const std::vector<PodClass>& classes) {
  std::vector<Fill> fills;
  for (const PodClass& pod_class : classes) {
    fills.push_back(PackClass(rooms, pod_class));
    int64_t placed = 0;
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      const int64_t count = fills.back()[i];
      placed += count;
      if (count > 0) {
        TakeRoom(pod_class, count, &rooms[i]);
      }
    }
    if (placed < static_cast<int64_t>(pod_class.pods.size())) {
      return std::nullopt;
    }
  }
  return fills;
}

bool FitsWhole(const std::vector<NodeRoom>& rooms, const std::vector<PodClass>& classes) {
  for (const PodClass& pod_class : classes) {
    auto missing = static_cast<int64_t>(pod_class.pods.size());
    for (std::size_t i = 0; i < rooms.size() && missing > 0; ++i) {
      missing -= PodsThatFit(rooms[i], pod_class, missing);
    }
    if (missing > 0) {
      return false;
    }
  }
  return classes.size() == 1 || PackWhole(rooms, classes).has_value();
}

std::vector<RoomHold> HoldsOfFills(const std::vector<PodClass>& classes,
                                   const std::vector<Fill>& fills) {
  std::vector<RoomHold> holds;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    for (std::size_t room = 0; room < fills[c].size(); ++room) {
      if (fills[c][room] > 0) {
        holds.push_back({room, Times(classes[c].request, fills[c][room]), fills[c][room]});
      }
    }
  }
  return holds;
}

void Timeline::Begin(const std::string& gang, WallTime expected_end, std::vector<RoomHold> holds) {
  LOCKSTEP_CHECK(!is_running(gang), gang + " runs already");
  for (const RoomHold& hold : holds) {
    TakeHold(hold, &rooms_[hold.room]);
  }
  ends_.emplace(expected_end, gang);
  holds_.emplace(gang, Running{expected_end, std::move(holds)});
}

void Timeline::End(const std::string& gang) {
  const auto found = holds_.find(gang);
  if (found == holds_.end()) {
    return;
  }
  for (const RoomHold& hold : found->second.holds) {
    GiveBackHold(hold, &rooms_[hold.room]);
  }
  ends_.erase({found->second.expected_end, gang});
  holds_.erase(found);
}

std::vector<Timeline::EndAt> Timeline::EndsFrom(WallTime now) const {
  std::vector<EndAt> ends;
  ends.reserve(ends_.size());
  for (const auto& [at, gang] : ends_) {
    ends.emplace_back(at > now ? at : now + (now - at) + kOverdueLeft, gang);
  }
  if (!ends_.empty() && ends_.begin()->first <= now) {
    std::sort(ends.begin(), ends.end());
  }
  return ends;
}

std::optional<Opening> Timeline::EarliestOpening(const std::vector<PodClass>& classes,
                                                 WallTime now) const {
  Opening opening{now, rooms_};
  ClassCounts counts(classes, opening.rooms);
  const auto fits = [&] {
    return counts.is_enough() && (classes.size() == 1 || PackWhole(opening.rooms, classes));
  };
  bool has_opened = fits();
  if (has_opened) {
    return opening;
  }
  for (const auto& [at, gang] : EndsFrom(now)) {
    if (has_opened && at > opening.at) {
      break;  // all that end at the same moment belong to it
    }
    for (const RoomHold& hold : holds_.at(gang).holds) {
      NodeRoom& room = opening.rooms[hold.room];
      counts.Add(room, -1);
      GiveBackHold(hold, &room);
      counts.Add(room, 1);
    }
    opening.at = at;
    has_opened = has_opened || fits();
  }
  return has_opened ? std::optional<Opening>(std::move(opening)) : std::nullopt;
}

}  // namespace lockstep::control
