#include "operator/kubeclient/transport/server_clock.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace lockstep::control {
namespace {

// Choice: far below what clocks are compared by, far above what a healthy server takes.
constexpr Duration kReplyTimeMax = std::chrono::seconds(5);

constexpr std::array<std::string_view, 12> kMonths = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// "Sun, 06 Nov 1994 08:49:37 GMT". Source: RFC 9110, IMF-fixdate.
std::optional<WallTime> ParseDate(std::string_view text) {
  std::array<char, 4> month{};
  int day = 0;
  int year = 0;
  int hours = 0;
  int minutes = 0;
  int seconds = 0;
  int end = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(),
                  "%*3s, %2d %3s %4d %2d:%2d:%2d GMT%n",
                  &day,
                  month.data(),
                  &year,
                  &hours,
                  &minutes,
                  &seconds,
                  &end) != 6 ||
      static_cast<std::size_t>(end) != copy.size()) {
    return std::nullopt;
  }
  unsigned number = 1;
  for (const std::string_view name : kMonths) {
    const std::chrono::year_month_day date{std::chrono::year(year),
                                           std::chrono::month(number++),
                                           std::chrono::day(static_cast<unsigned>(day))};
    if (name == month.data() && date.ok()) {
      return std::chrono::sys_days(date) + std::chrono::hours(hours) +
             std::chrono::minutes(minutes) + std::chrono::seconds(seconds);
    }
  }
  return std::nullopt;
}

}  // namespace

void ServerClock::Note(std::string_view date, TimePoint asked, TimePoint came) {
  const std::optional<WallTime> read = ParseDate(date);
  if (!read || came - asked > kReplyTimeMax) {
    return;
  }
  const auto taken = std::chrono::ceil<std::chrono::milliseconds>(came - asked);
  const std::lock_guard lock(mutex_);
  last_ = Sample{{*read, *read + std::chrono::seconds(1) + taken}, came};
}

std::optional<ServerClock::Range> ServerClock::At(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  if (!last_) {
    return std::nullopt;
  }
  const auto since = std::chrono::floor<std::chrono::milliseconds>(now - last_->came);
  return Range{last_->range.earliest + since, last_->range.latest + since};
}

}  // namespace lockstep::control
