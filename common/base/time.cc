#include "common/base/time.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>

namespace lockstep {

TimePoint SteadyNow() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

TimePoint SystemClock::Now() const {
  return SteadyNow();
}

WallTime SystemClock::WallNow() const {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

int Deadline::RemainingMilliseconds(TimePoint now) const {
  const int64_t rounded_up = std::chrono::ceil<std::chrono::milliseconds>(Remaining(now)).count();
  return static_cast<int>(std::min<int64_t>(rounded_up, std::numeric_limits<int>::max()));
}

std::string FormatRfc3339(WallTime when) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(when);
  const auto milliseconds = static_cast<int>((when - seconds).count());
  const std::time_t time = seconds.time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const std::size_t used = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", milliseconds % 1000);
  return std::string(text.data(), used) + fraction.data();
}

double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace lockstep
