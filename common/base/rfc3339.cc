#include "common/base/rfc3339.h"

#include <charconv>
#include <chrono>

namespace lockstep {
namespace {

// The number in `text` at [begin, begin + count); -1 unless all of it are digits.
int Digits(std::string_view text, std::size_t begin, std::size_t count) {
  int value = 0;
  const char* first = text.data() + begin;
  const auto [end, error] = std::from_chars(first, first + count, value);
  return error == std::errc() && end == first + count && *first != '-' ? value : -1;
}

// Takes ".123" off the front of `text` and returns its milliseconds: 0 without a fraction, -1 for
// one that cannot be.
int64_t TakeFraction(std::string_view* text) {
  if (!text->starts_with('.')) {
    return 0;
  }
  constexpr std::size_t kDigitsMax = 9;
  const std::size_t end = text->find_first_not_of("0123456789", 1);
  const std::size_t count = (end == std::string_view::npos ? text->size() : end) - 1;
  if (count == 0 || count > kDigitsMax) {
    return -1;
  }
  int64_t nanoseconds = Digits(*text, 1, count);
  for (std::size_t digits = count; digits < kDigitsMax; ++digits) {
    nanoseconds *= 10;
  }
  text->remove_prefix(count + 1);
  return nanoseconds / 1'000'000;
}

// What "Z" or "+02:00" is ahead of UTC; nullopt for anything else.
std::optional<std::chrono::minutes> ParseOffset(std::string_view text) {
  if (text == "Z") {
    return std::chrono::minutes(0);
  }
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') {
    return std::nullopt;
  }
  const int hours = Digits(text, 1, 2);
  const int minutes = Digits(text, 4, 2);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) {
    return std::nullopt;
  }
  const auto ahead = std::chrono::hours(hours) + std::chrono::minutes(minutes);
  return text[0] == '+' ? ahead : -ahead;
}

}  // namespace

std::optional<WallTime> ParseRfc3339(std::string_view text) {
  constexpr std::size_t kSecondsEnd = 19;  // of "2026-11-21T10:22:03"
  if (text.size() <= kSecondsEnd || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
      text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const std::chrono::year_month_day day{
      std::chrono::year(Digits(text, 0, 4)),
      std::chrono::month(static_cast<unsigned>(Digits(text, 5, 2))),
      std::chrono::day(static_cast<unsigned>(Digits(text, 8, 2)))};
  const int hour = Digits(text, 11, 2);
  const int minute = Digits(text, 14, 2);
  const int second = Digits(text, 17, 2);
  std::string_view rest = text.substr(kSecondsEnd);
  const int64_t milliseconds = TakeFraction(&rest);
  const auto offset = ParseOffset(rest);
  const bool is_time = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 &&
                       second < 60 && milliseconds >= 0 && offset.has_value();
  if (Digits(text, 0, 4) < 0 || !day.ok() || !is_time) {
    return std::nullopt;
  }
  return WallTime(std::chrono::sys_days(day).time_since_epoch() + std::chrono::hours(hour) +
                  std::chrono::minutes(minute) - *offset + std::chrono::seconds(second) +
                  std::chrono::milliseconds(milliseconds));
}

}  // namespace lockstep
