#include "operator/cmd/clock_watch.h"

#include <chrono>

#include "common/base/plural.h"

namespace lockstep::control {
namespace {

constexpr Duration kCorrectionInterval = std::chrono::minutes(1);

// How far `own` is from what the server's clock may show.
Duration OffsetOf(WallTime own, const std::optional<ServerClock::Range>& server) {
  if (!server) {
    return Duration::zero();
  }
  return own < server->earliest ? own - server->earliest
         : own > server->latest ? own - server->latest
                                : Duration::zero();
}

bool Differs(Duration offset) {
  return std::chrono::abs(offset) > kClockOffsetMax;
}

// The earlier of both, where they differ.
WallTime EarlierOf(WallTime own, const std::optional<ServerClock::Range>& server) {
  const Duration offset = OffsetOf(own, server);
  return Differs(offset) && offset > Duration::zero() ? server->earliest : own;
}

}  // namespace

void ClockWatch::Look(WallTime own, const std::optional<ServerClock::Range>& server) {
  server_ = server;
  offset_ = OffsetOf(own, server);
  trusted_ = EarlierOf(own, server);
}

std::string ClockWatch::why() const {
  if (!Differs(offset_)) {
    return "";
  }
  const bool is_ahead = offset_ > Duration::zero();
  const auto seconds = std::chrono::round<std::chrono::seconds>(std::chrono::abs(offset_));
  return "the operator's clock is " + Plural(seconds.count(), "second") +
         (is_ahead ? " ahead of" : " behind") +
         " the API server's. Deadlines, pauses and times to live use the earlier clock, the " +
         (is_ahead ? "API server's" : "operator's") +
         "; check NTP on the nodes of the operator and of the API server";
}

std::optional<WallTime> ClockWatch::Correct(WallTime calendar, TimePoint now) {
  if (!Differs(OffsetOf(calendar, server_)) ||
      (corrected_at_ && now - *corrected_at_ < kCorrectionInterval)) {
    return std::nullopt;
  }
  const WallTime time = Differs(offset_) ? EarlierOf(calendar, server_) : trusted_;
  if (!Differs(calendar - time)) {
    return std::nullopt;
  }
  corrected_at_ = now;
  return time;
}

}  // namespace lockstep::control
