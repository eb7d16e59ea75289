#include "operator/cli/terminal/duration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace lockstep::control {
namespace {

// "ms" before "m": the longer name is tried first.
constexpr std::array<std::pair<std::string_view, double>, 5> kUnitSeconds = {{
    {"ms", 1e-3},
    {"s", 1},
    {"m", 60},
    {"h", 3600},
    {"d", 86400},
}};

// Takes "1.5h" off the front of `text`. Negative: there is none.
double TakeSeconds(std::string_view* text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) {
    return -1;
  }
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  const auto* const unit =
      std::find_if(kUnitSeconds.begin(), kUnitSeconds.end(), [text](const auto& one) {
        return text->starts_with(one.first);
      });
  if (unit == kUnitSeconds.end()) {
    return -1;
  }
  text->remove_prefix(unit->first.size());
  return number * unit->second;
}

Error WrongDuration(std::string_view text, const std::string& expected) {
  return Error(ErrorCode::kInvalidArgument,
               "\"" + std::string(text) + "\" found, expected " + expected);
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  const bool is_bare = !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
  const std::string with_unit = std::string(text) + (is_bare ? "s" : "");
  std::string_view rest = with_unit;
  double seconds = rest.empty() ? -1 : 0;
  while (!rest.empty() && seconds >= 0) {
    const double part = TakeSeconds(&rest);
    seconds = part < 0 ? part : seconds + part;
  }
  if (!(seconds >= 0)) {
    return WrongDuration(
        text,
        "a duration such as 90s, 5m or 1h30m (units ms, s, m, h and d; a bare number is "
        "seconds)");
  }
  if (seconds > ToSeconds(kDurationMax)) {
    return WrongDuration(text, "at most 365d");
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

std::string FormatExactDuration(Duration duration) {
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  if (whole < 1000) {
    return std::to_string(whole) + " ms";
  }
  std::string text;
  const auto add = [&text](const std::string& number, const char* unit) {
    text += (text.empty() ? "" : " ") + number + unit;
  };
  if (whole >= 3'600'000) {
    add(std::to_string(whole / 3'600'000), " h");
  }
  if (whole / 60'000 % 60 > 0) {
    add(std::to_string(whole / 60'000 % 60), " min");
  }
  std::string seconds = std::to_string(whole / 1000 % 60);
  if (whole % 1000 > 0) {
    const std::string thousandths = std::to_string(1000 + whole % 1000).substr(1);
    seconds += "." + thousandths.substr(0, thousandths.find_last_not_of('0') + 1);
  }
  if (seconds != "0") {
    add(seconds, " s");
  }
  return text;
}

}  // namespace lockstep::control
