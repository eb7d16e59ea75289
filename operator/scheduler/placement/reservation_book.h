#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "operator/scheduler/placement/reservation.h"
#include "operator/scheduler/plan/plan.h"

namespace lockstep::control {

// The reservations of one round, each of which is worked out once for as long as it holds.
//
// Who passes: a gang may start beside one for which room is reserved where it is stopped when that
// one is expected to have its room (EndsBy::kPastRuns); or where it is expected to have ended then,
// by what is known of its kind, and is stopped when that one has its room at the latest
// (EndsBy::kLimits); or where that one has its room as soon beside it. So what
// was learnt moves nobody's latest start, and who has none, as one without a limit is in its way,
// waits for nobody past the moment that was expected for it when that one started. Where nothing
// was learnt the two are the same.
class ReservationBook {
 public:
  // `statement` outlives it. What is done to it is done for good, but for what is rolled back
  // before anything is asked here.
  ReservationBook(Statement* statement, int64_t search_steps_max);

  // Whether it is known when the gang has its room, so that others may pass.
  bool IsReserved(const GangRecord& waiting);

  // Does `start`, by which the gang starts, unless one of `heads`, which are others, would start
  // later for it. Not null: it is not done, as that one would, or as it is not known of it: who
  // comes after some reservations have been worked out does not start.
  const GangRecord* StartBeside(const GangRecord& gang,
                                const Operation& start,
                                const std::vector<const GangRecord*>& heads);

  // Adds to what is missing for the gang when it starts at the latest, or is expected to.
  void AddStart(const GangRecord& waiting, Unschedulable* why);

 private:
  // At the statement's checkpoint of that number.
  struct Known {
    std::size_t checkpoint = 0;
    std::optional<Reservation> reservation;
  };

  using Key = std::pair<const GangRecord*, EndsBy>;

  EndsBy Where(EndsBy by) const;
  const std::optional<Reservation>* FindKnown(const GangRecord& waiting, EndsBy by) const;
  std::optional<Reservation> Find(const GangRecord& waiting, EndsBy by, int64_t* walks_left);
  std::optional<Reservation> FindToPass(const GangRecord& waiting, EndsBy by);
  bool EndsBefore(const GangRecord& gang, const GangRecord& waiting);
  bool LeavesRoom(const GangRecord& gang, const GangRecord& waiting, std::size_t before);

  Statement& statement_;
  int64_t search_steps_max_;
  std::map<Key, Known> known_;
  int64_t walks_left_;  // to let others pass
};

}  // namespace lockstep::control
