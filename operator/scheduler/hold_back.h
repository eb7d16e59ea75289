#pragma once

#include <chrono>
#include <optional>

#include "common/base/time.h"
#include "operator/scheduler/placement/reservation_book.h"

namespace lockstep::control {

// Whether those that come later wait for one of whom nobody knows when it starts, as something that
// may run for ever is in its way; and until when that stays so.
struct HoldBack {
  bool holds = true;
  WallTime until{};

  friend bool operator==(const HoldBack&, const HoldBack&) = default;
};

// A job for the whole cluster would hold up its queue for as long as it pleases others to run. So
// it holds the others back for one window, and lets them pass for as long; then the windows double:
//
//   waited    0      w      2w            4w            6w                    10w   ...
//             | hold | pass |    hold     |    pass     |        hold         | pass
//
// Nobody starves: what runs when a window begins that is as long as that takes, ends within it. So
// the one that waits starts after at most five times the time that it would have had to wait if
// nobody had passed. The others wait for half of the time at most, once the first is over.
HoldBack HoldBackOf(WallTime since, WallTime now, std::chrono::seconds window);

// Who holds others back in one round.
class HoldBacks {
 public:
  // No window: everybody does until it starts. The statement and the book outlive it.
  HoldBacks(std::chrono::seconds window, const Statement* statement, ReservationBook* reservations)
      : window_(window), statement_(*statement), reservations_(*reservations) {}

  // Whether those that come later wait for the gang, which may start one day and waits on. By how
  // long it has waited itself: an older one may be for other nodes, or never start.
  bool HoldsBack(const GangRecord& gang);

  // When another answer comes by time alone; null: never.
  std::optional<WallTime> next() const { return next_; }

 private:
  // Gangs of a round of which it is asked whether room is reserved for them; others that wait hold
  // back. Choice: such a question may take a search.
  static constexpr int kLooksMax = 32;

  std::chrono::seconds window_;
  const Statement& statement_;
  ReservationBook& reservations_;
  int looks_left_ = kLooksMax;
  std::optional<WallTime> next_;
};

}  // namespace lockstep::control
