#pragma once

#include <optional>
#include <string>

#include "common/base/time.h"
#include "operator/kubeclient/transport/server_clock.h"

namespace lockstep::control {

// Clocks that differ by more say different times. Choice: far above what NTP leaves, far below any
// limit of time that matters.
inline constexpr auto kClockOffsetMax = std::chrono::seconds(30);

// Compares this process's calendar with the API server's. While they differ nobody knows which is
// wrong, so limits of time go by the earlier one: what the later one alone says has not come yet.
// A state machine without I/O or clock.
// Thread: one.
class ClockWatch {
 public:
  // What both show at one moment. Null: the server's is not known.
  void Look(WallTime own, const std::optional<ServerClock::Range>& server);

  // Ours less the server's, by the last look; zero where its whole seconds leave that open.
  Duration offset() const { return offset_; }

  // What is wrong, and what to do. Empty: nothing is, as far as is known.
  std::string why() const;

  // The time by which one who begins to lead now judges limits.
  WallTime TrustedNow() const { return trusted_; }

  // The time by which a leader judges them from now on whose calendar shows `calendar` at the
  // moment of the last look; null: it goes on as it does. At most once a minute: API servers whose
  // clocks differ would change it with every reply.
  std::optional<WallTime> Correct(WallTime calendar, TimePoint now);

 private:
  std::optional<ServerClock::Range> server_;
  WallTime trusted_{};
  Duration offset_{};
  std::optional<TimePoint> corrected_at_;
};

}  // namespace lockstep::control
