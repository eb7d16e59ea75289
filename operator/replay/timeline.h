#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/scheduler/plan.h"
#include "operator/scheduler/room.h"

namespace lockstep::control {

// What a gang holds of one room, and gives back when it ends.
struct RoomHold {
  std::size_t room = 0;  // index
  ResourceVector amounts;
  int64_t pod_count = 0;

  friend bool operator==(const RoomHold&, const RoomHold&) = default;
};

void TakeHold(const RoomHold& hold, NodeRoom* room);
void GiveBackHold(const RoomHold& hold, NodeRoom* room);

// How many pods of each class go to each room, for all of the gang, each class in turn in its
// packing order (PackClass); empty where a class finds no room. Exact for gangs of one class.
std::optional<std::vector<Fill>> PackWhole(std::vector<NodeRoom> rooms,
                                           const std::vector<PodClass>& classes);

// Whether PackWhole would succeed.
bool FitsWhole(const std::vector<NodeRoom>& rooms, const std::vector<PodClass>& classes);

// What a gang that was packed so holds.
std::vector<RoomHold> HoldsOfFills(const std::vector<PodClass>& classes,
                                   const std::vector<Fill>& fills);

// A moment from which on a gang fits, and what the rooms have left then.
struct Opening {
  WallTime at;
  std::vector<NodeRoom> rooms;
};

// What the rooms have left now, and will have as running gangs end: each when it is expected to.
// One that is still there is expected to go on for as long as it has been overdue.
//
// Cost: a change costs the rooms of one gang; a question walks the ends until the gang fits, each
// at the cost of the rooms that it gives back.
class Timeline {
 public:
  // `rooms` as of SurveyOf, less what others than the running gangs hold. Their nodes outlive
  // this.
  explicit Timeline(std::vector<NodeRoom> rooms) : rooms_(std::move(rooms)) {}

  const std::vector<NodeRoom>& rooms() const { return rooms_; }

  // The gang runs. Precondition (checked): it does not yet.
  void Begin(const std::string& gang, WallTime expected_end, std::vector<RoomHold> holds);
  // It has ended, whenever that was expected. Nothing happens where nobody knows it.
  void End(const std::string& gang);

  bool is_running(const std::string& gang) const { return holds_.count(gang) > 0; }

  // The first moment, now or when a gang is expected to end, from which on the classes fit together
  // as PackWhole packs them; empty where they would not fit if all had ended.
  std::optional<Opening> EarliestOpening(const std::vector<PodClass>& classes, WallTime now) const;

 private:
  struct Running {
    WallTime expected_end;
    std::vector<RoomHold> holds;
  };

  using EndAt = std::pair<WallTime, std::string>;  // when, and of which gang

  std::vector<EndAt> EndsFrom(WallTime now) const;

  std::vector<NodeRoom> rooms_;
  std::map<std::string, Running> holds_;
  std::set<EndAt> ends_;
};

}  // namespace lockstep::control
