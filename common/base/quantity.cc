#include "common/base/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

namespace lockstep {
namespace {

__extension__ using Wide = unsigned __int128;  // digits x suffix overflows 64 bits

// Digits above this many say no more than that there is something: 10^20 x 2^60 fits into Wide, and
// no int64 has more.
constexpr int kDigitsMax = 20;

// What is further out is as large, or as small, as this. Choice: above what any text of digits that
// the API server takes could bring back into range.
constexpr int kExponentMax = 10'000'000;

// A number as digits x 10^exponent x 2^shift, or a little more where it has a rest.
struct Parts {
  Wide digits = 0;
  int exponent = 0;
  int shift = 0;
  bool has_rest = false;
};

struct Suffix {
  std::string_view text;
  int exponent;
  int shift;
};

constexpr std::array<Suffix, 16> kSuffixes = {{
    {"", 0, 0},
    {"n", -9, 0},
    {"u", -6, 0},
    {"m", -3, 0},
    {"k", 3, 0},
    {"M", 6, 0},
    {"G", 9, 0},
    {"T", 12, 0},
    {"P", 15, 0},
    {"E", 18, 0},
    {"Ki", 0, 10},
    {"Mi", 0, 20},
    {"Gi", 0, 30},
    {"Ti", 0, 40},
    {"Pi", 0, 50},
    {"Ei", 0, 60},
}};

Error Expected(std::string words) {
  return Error(ErrorCode::kInvalidArgument, std::move(words));
}

Error NotAQuantity() {
  return Expected("a quantity such as 2, 500m, 1.5 or 2Gi");
}

// Reads the suffix into `parts`.
Status ReadSuffix(std::string_view text, Parts* parts) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.text == text) {
      parts->exponent += suffix.exponent;
      parts->shift = suffix.shift;
      return OkStatus();
    }
  }
  const bool is_exponent = text.starts_with('e') || text.starts_with('E');
  if (!is_exponent || text.substr(1).starts_with("+-")) {
    return NotAQuantity();
  }
  text.remove_prefix(text.substr(1).starts_with('+') ? 2 : 1);
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    return NotAQuantity();
  }
  if (error != std::errc()) {
    exponent = text.starts_with('-') ? -kExponentMax : kExponentMax;
  }
  exponent = std::clamp(exponent, -kExponentMax, kExponentMax);
  parts->exponent += exponent;
  return OkStatus();
}

// digits, an optional point among them, and a suffix.
Result<Parts> Split(std::string_view text) {
  Parts parts;
  bool has_point = false;
  bool has_digit = false;
  int digit_count = 0;  // from the first that is not 0
  std::size_t at = text.starts_with('+') ? 1 : 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !has_point) {
      has_point = true;
      continue;
    }
    if (text[at] < '0' || text[at] > '9') {
      break;
    }
    has_digit = true;
    if (digit_count < kDigitsMax) {
      parts.digits = parts.digits * 10 + static_cast<Wide>(text[at] - '0');
      parts.exponent -= has_point ? 1 : 0;
      digit_count += parts.digits > 0 ? 1 : 0;
    } else {
      parts.has_rest = parts.has_rest || text[at] != '0';
      parts.exponent += has_point ? 0 : 1;
    }
  }
  if (!has_digit) {
    return NotAQuantity();
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadSuffix(text.substr(at), &parts));
  return parts;
}

}  // namespace

namespace {

// Rounded up; more than int64 holds is any number above its largest.
Wide InUnits(const Parts& parts, int exponent) {
  constexpr Wide kMax = std::numeric_limits<int64_t>::max();
  Wide value = parts.digits << parts.shift;
  for (; exponent > 0 && value > 0 && value <= kMax; --exponent) {
    value *= 10;
  }
  bool has_rest = parts.has_rest;
  for (; exponent < 0 && value > 0; ++exponent) {
    has_rest = has_rest || value % 10 != 0;
    value /= 10;
  }
  return value + (has_rest ? 1 : 0);
}

}  // namespace

Result<int64_t> ParseQuantity(std::string_view text, QuantityUnit unit) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Parts parts, Split(text));
  constexpr Wide kMax = std::numeric_limits<int64_t>::max();
  if (InUnits(parts, parts.exponent) > kMax) {
    return Expected("a quantity below 8Ei");
  }
  const int exponent = parts.exponent + (unit == QuantityUnit::kThousandths ? 3 : 0);
  return static_cast<int64_t>(std::min(InUnits(parts, exponent), kMax));
}

}  // namespace lockstep
