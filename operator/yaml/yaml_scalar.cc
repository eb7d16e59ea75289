#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

// Digits of a number of that base, no sign; null where they are none or too many for the type.
template <typename Number>
std::optional<Number> ParseWhole(std::string_view digits, int base) {
  Number value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  return is_whole ? std::optional<Number>(value) : std::nullopt;
}

// A double; null where it overflows.
std::optional<double> ParseFloat(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    // from_chars reports too small and too large alike; only the exponent's sign tells.
    const bool is_tiny = text.find("e-") != text.npos || text.find("E-") != text.npos;
    return is_tiny ? std::optional<double>(0) : std::nullopt;
  }
  return value;
}

// The base that a number without its sign begins with, by one of two letters; 10: none.
int TakeBase(std::string_view* digits) {
  const char letter = digits->size() > 1 && digits->front() == '0' ? digits->at(1) : ' ';
  if (letter == 'x' || letter == 'X' || letter == 'o' || letter == 'O' || letter == 'b' ||
      letter == 'B') {
    digits->remove_prefix(2);
    return letter == 'x' || letter == 'X' ? 16 : letter == 'b' || letter == 'B' ? 2 : 8;
  }
  return letter >= '0' && letter <= '9' ? 8 : 10;  // 0400; 089, which is none, is a float then
}

// A whole number of 64 bits. Source: ParseInt and ParseUint of Go's strconv, base 0.
std::optional<Json> ParseInteger(std::string_view text) {
  std::string_view digits = text;
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  digits.remove_prefix(has_sign ? 1 : 0);
  const int base = TakeBase(&digits);
  if (digits.starts_with('-')) {  // which from_chars would take
    return std::nullopt;
  }
  const std::string signed_digits = (text.starts_with('-') ? "-" : "") + std::string(digits);
  if (const auto value = ParseWhole<int64_t>(signed_digits, base)) {
    return Json(*value);
  }
  if (const auto value = ParseWhole<uint64_t>(digits, base); value && !has_sign) {
    return Json(*value);
  }
  return std::nullopt;
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?  -- YAML 1.2, 10.3.2.
bool IsFloat(std::string_view text) {
  std::size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const auto skip_digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      ++at;
    }
    return at - start;
  };
  const std::size_t whole_digits = skip_digits();
  std::size_t fraction_digits = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction_digits = skip_digits();
  }
  if (whole_digits + fraction_digits == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    at += at < text.size() && (text[at] == '-' || text[at] == '+') ? 1 : 0;
    return skip_digits() > 0 && at == text.size();
  }
  return at == text.size();
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool IsDigit(char letter) {
  return letter >= '0' && letter <= '9';
}

// 1_000 is 1000.
std::string WithoutUnderscores(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  return text;
}

// What kubectl sends of a double: 1000 of 1e3, as JSON has one sort of number.
Json AsSent(double value) {
  constexpr double kInt64End = 9223372036854775808.0;
  const bool is_whole = std::trunc(value) == value && value >= -kInt64End && value < kInt64End;
  return is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

}  // namespace

Json ResolvePlainScalar(const std::string& text) {
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) {
    return nullptr;
  }
  if (IsOneOf(text, {"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})) {
    return true;
  }
  if (IsOneOf(text, {"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})) {
    return false;
  }
  if (IsOneOf(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})) {
    return std::numeric_limits<double>::infinity();
  }
  if (IsOneOf(text, {"-.inf", "-.Inf", "-.INF"})) {
    return -std::numeric_limits<double>::infinity();
  }
  if (IsOneOf(text, {".nan", ".NaN", ".NAN"})) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const char first = text.front();
  if (!IsDigit(first) && first != '-' && first != '+' && first != '.') {
    return text;
  }
  const std::string number = first == '.' ? text : WithoutUnderscores(text);
  if (const std::optional<Json> integer = ParseInteger(number)) {
    return *integer;
  }
  const std::optional<double> value = IsFloat(number) ? ParseFloat(number) : std::nullopt;
  return value.has_value() ? AsSent(*value) : Json(text);
}

}  // namespace lockstep::control
