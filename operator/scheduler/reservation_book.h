#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "operator/scheduler/plan.h"
#include "operator/scheduler/reservation.h"

namespace lockstep::control {

// The reservations of one round, each of which is worked out once for as long as it holds.
//
// Who passes: a gang that is stopped some day may start although one ahead would have to wait for
// it where it is stopped when that one is expected to have its room (EndsBy::kPastRuns); or where
// it is expected to have ended then, by what is known of its kind, and is stopped when that one has
// its room at the latest (EndsBy::kLimits). So what was learnt moves nobody's latest start, and who
// has none, as one without a limit is in its way, waits for nobody past the moment that was
// expected for it when that one started. Where nothing was learnt the two are the same.
class ReservationBook {
 public:
  // `statement` outlives it. What is done to it is done for good, but for what is rolled back
  // before anything is asked here.
  ReservationBook(Statement* statement, int64_t search_steps_max);

  // Whether it is known when the gang is stopped, and when some that run will have ended.
  bool IsStopped(const GangRecord& gang) const;

  // Whether the gang, which is stopped some day, may start now although `waiting` would have to
  // wait for it. Who comes after some have been worked out may not.
  bool EndsBefore(const GangRecord& gang, const GangRecord& waiting);

  // The gang of which that was asked last starts now, as the last operation of the statement:
  // nobody of whom it was asked starts later for it.
  void NotePassed();

  // Adds to what is missing for the gang when it starts at the latest, or is expected to.
  void AddStart(const GangRecord& waiting, Unschedulable* why);

 private:
  // At the statement's checkpoint of that number.
  struct Known {
    std::size_t checkpoint = 0;
    std::optional<Reservation> reservation;
  };

  EndsBy Where(EndsBy by) const;
  const std::optional<Reservation>* FindKnown(const GangRecord& waiting, EndsBy by) const;
  std::optional<Reservation> Find(const GangRecord& waiting, EndsBy by);
  std::optional<Reservation> FindToPass(const GangRecord& waiting, EndsBy by);

  Statement& statement_;
  int64_t search_steps_max_;
  std::map<std::pair<const GangRecord*, EndsBy>, Known> known_;
  const GangRecord* asked_ = nullptr;           // of EndsBefore, the last
  std::vector<const GangRecord*> asked_about_;  // with it
  int left_;                                    // to be worked out to let others pass
};

}  // namespace lockstep::control
