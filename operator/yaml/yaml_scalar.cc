#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

bool AllDigits(std::string_view text, int base) {
  const auto is_digit = [base](char c) {
    return (c >= '0' && c <= (base == 8 ? '7' : '9')) ||
           (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

template <typename Number>
std::optional<Number> ParseWhole(std::string_view digits, int base) {
  Number value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  return is_whole ? std::optional<Number>(value) : std::nullopt;
}

// A double; overflow gives infinity.
double ParseFloat(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    // from_chars reports too small and too large alike; only the exponent's sign tells.
    const bool is_tiny = text.find("e-") != text.npos || text.find("E-") != text.npos;
    return is_tiny ? 0 : std::numeric_limits<double>::infinity();
  }
  return value;
}

std::optional<Json> ParseInteger(std::string_view text) {
  if (text.starts_with("0o") && AllDigits(text.substr(2), 8)) {
    const auto value = ParseWhole<uint64_t>(text.substr(2), 8);
    return value ? std::optional<Json>(*value) : std::nullopt;
  }
  if (text.starts_with("0x") && AllDigits(text.substr(2), 16)) {
    const auto value = ParseWhole<uint64_t>(text.substr(2), 16);
    return value ? std::optional<Json>(*value) : std::nullopt;
  }
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  if (!AllDigits(text.substr(has_sign ? 1 : 0), 10)) {
    return std::nullopt;
  }
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  if (const auto value = ParseWhole<int64_t>(text, 10)) {
    return Json(*value);
  }
  if (const auto value = ParseWhole<uint64_t>(text, 10)) {
    return Json(*value);
  }
  return Json(ParseFloat(text));  // as JSON readers do with numbers beyond 64 bits
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

}  // namespace

Json ResolvePlainScalar(const std::string& text) {
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) {
    return nullptr;
  }
  if (IsOneOf(text, {"true", "True", "TRUE"})) {
    return true;
  }
  if (IsOneOf(text, {"false", "False", "FALSE"})) {
    return false;
  }
  if (const std::optional<Json> integer = ParseInteger(text)) {
    return *integer;
  }
  std::string_view unsigned_text = text;
  if (text.front() == '-' || text.front() == '+') {
    unsigned_text.remove_prefix(1);
  }
  if (IsOneOf(unsigned_text, {".inf", ".Inf", ".INF"})) {
    return std::numeric_limits<double>::infinity();
  }
  if (IsOneOf(text, {".nan", ".NaN", ".NAN"})) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (IsFloat(text)) {
    return ParseFloat(text.front() == '+' ? unsigned_text : std::string_view(text));
  }
  return text;
}

}  // namespace lockstep::control
