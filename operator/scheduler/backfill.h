#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "operator/scheduler/placement/reservation_book.h"

namespace lockstep::control {

// Who passes those that wait, where they hold a reservation: each queue reserves for its *heads*,
// who waits first and the oldest. Others start beside these where no head starts later for it; who
// waits and is no head may have to wait longer for them, until it is one. That opens a *gap* in the
// queue, in which the shortest come first.
//
// Nobody starves: no head's moment is moved by who passes, and the oldest stays one.
//
// One of these serves one round.
class Backfill {
 public:
  using Heads = std::vector<const GangRecord*>;

  // The statement and the book outlive it.
  Backfill(const Statement* statement, ReservationBook* reservations)
      : statement_(*statement), reservations_(*reservations) {}

  bool IsTried(QueueIndex queue) const { return heads_.contains(queue); }

  // Opens the gap, unless one of the heads has no reservation. Precondition: not IsTried.
  bool Open(QueueIndex queue, Heads heads);

  bool has_gap() const { return has_gap_; }

  // Null: no gap is open there.
  const Heads* HeadsOf(QueueIndex queue) const;

  // For whom one of its kind could not start that would have ended no later; or the first of the
  // queue, where many could not. Null: it may be tried. Precondition: a gap is open in its queue.
  const GangRecord* WhyHopeless(const GangRecord& gang) const;

  // Starts the gang there unless another head would start later for it, which is returned then; it
  // is no head itself any more. Precondition: a gap is open in its queue.
  const GangRecord* Start(const GangRecord& gang, const PlacedPods& pods);

 private:
  // Gangs of one kind fit where one of them fits.
  using Kind = std::tuple<QueueIndex,
                          std::vector<ShapeIndex>,
                          std::vector<std::size_t>,
                          std::string,
                          std::string>;

  // When the gang will have ended that starts now, as is expected and at the latest; the latter is
  // null where nobody stops it.
  struct End {
    std::optional<WallTime> expected;
    std::optional<WallTime> latest;
  };

  struct Failure {
    End end;
    const GangRecord* head = nullptr;
  };

  static Kind KindOf(const GangRecord& gang);
  End EndOfNow(const GangRecord& gang) const;

  const Statement& statement_;
  ReservationBook& reservations_;
  std::map<QueueIndex, std::optional<Heads>> heads_;  // empty: the queue has no gap in this round
  bool has_gap_ = false;
  std::map<Kind, std::vector<Failure>> failed_;
  int failure_count_ = 0;
};

}  // namespace lockstep::control
