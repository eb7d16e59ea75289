#pragma once

#include <chrono>
#include <string>

namespace lockstep {

using Duration = std::chrono::nanoseconds;

// A point on the monotonic clock: only differences mean something; it never steps back.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// A point in calendar time, for people and status fields only; it may step.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

// Where time comes from. Deciding code receives `now` as a value; only shells hold a Clock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

// The operating system's clocks. Thread: any.
class SystemClock final : public Clock {
 public:
  TimePoint Now() const override;
  WallTime WallNow() const override;
};

// The moment by which a whole operation, retries included, must have ended.
class Deadline {
 public:
  static Deadline At(TimePoint when) { return Deadline(when); }

  static Deadline After(TimePoint now, Duration timeout) { return Deadline(now + timeout); }

  TimePoint when() const { return when_; }

  bool HasPassed(TimePoint now) const { return now >= when_; }

  // Time left, never negative.
  Duration Remaining(TimePoint now) const { return now >= when_ ? Duration::zero() : when_ - now; }

  // Time left as poll(2) wants it: rounded up, so that a wait never ends just before the deadline.
  int RemainingMilliseconds(TimePoint now) const;

 private:
  explicit Deadline(TimePoint when) : when_(when) {}

  TimePoint when_;
};

// The monotonic time now. For shells (sockets, processes); never in deciding code.
TimePoint SteadyNow();

// "2026-11-21T10:22:03.123Z". Units: UTC, milliseconds.
std::string FormatRfc3339(WallTime when);

// Seconds as a floating number, for metrics and messages.
double ToSeconds(Duration duration);

}  // namespace lockstep
