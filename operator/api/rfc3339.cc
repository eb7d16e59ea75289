#include "operator/api/rfc3339.h"

#include <charconv>
#include <chrono>

namespace lockstep::control {
namespace {

// The number in `text` at [begin, begin + count); -1 unless all of it are digits.
int Digits(std::string_view text, std::size_t begin, std::size_t count) {
  int value = 0;
  const char* first = text.data() + begin;
  const auto [end, error] = std::from_chars(first, first + count, value);
  return error == std::errc() && end == first + count && *first != '-' ? value : -1;
}

// Milliseconds of ".123Z" or "Z"; nullopt for anything else.
std::optional<std::chrono::milliseconds> ParseFraction(std::string_view text) {
  if (text == "Z") {
    return std::chrono::milliseconds(0);
  }
  if (text.size() < 3 || text.size() > 11 || text.front() != '.' || text.back() != 'Z') {
    return std::nullopt;
  }
  const int value = Digits(text, 1, text.size() - 2);
  if (value < 0) {
    return std::nullopt;
  }
  int64_t nanoseconds = value;
  for (std::size_t digits = text.size() - 2; digits < 9; ++digits) {
    nanoseconds *= 10;
  }
  return std::chrono::milliseconds(nanoseconds / 1'000'000);
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
  const auto fraction = ParseFraction(text.substr(kSecondsEnd));
  const bool is_time = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 &&
                       second < 60 && fraction.has_value();
  if (Digits(text, 0, 4) < 0 || !day.ok() || !is_time) {
    return std::nullopt;
  }
  return WallTime(std::chrono::sys_days(day).time_since_epoch() + std::chrono::hours(hour) +
                  std::chrono::minutes(minute) + std::chrono::seconds(second) + *fraction);
}

}  // namespace lockstep::control
