#include "common/base/quantity.h"

#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

namespace lockstep {
namespace {

__extension__ using Wide = __int128;  // digits x suffix overflows 64 bits before the division

// Bounds that keep every product of digits, suffix and unit inside Wide: 10^18 x 10^18 x 10^3.
constexpr int kDigitsMax = 18;
constexpr int kExponentMax = 18;

// A number as digits x 10^exponent x 2^shift.
struct Parts {
  Wide digits = 0;
  int exponent = 0;
  int shift = 0;
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
  if (error != std::errc() || exponent > kExponentMax || exponent < -kExponentMax) {
    const std::string most = std::to_string(kExponentMax);
    return Expected("a quantity with an exponent from -" + most + " to " + most);
  }
  parts->exponent += exponent;
  return OkStatus();
}

// digits, an optional point among them, and a suffix.
Result<Parts> Split(std::string_view text) {
  Parts parts;
  bool has_point = false;
  int digit_count = 0;
  std::size_t at = text.starts_with('+') ? 1 : 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !has_point) {
      has_point = true;
      continue;
    }
    if (text[at] < '0' || text[at] > '9') {
      break;
    }
    parts.digits = parts.digits * 10 + (text[at] - '0');
    parts.exponent -= has_point ? 1 : 0;
    if (++digit_count > kDigitsMax) {
      return Expected("a quantity of at most " + std::to_string(kDigitsMax) + " digits");
    }
  }
  if (digit_count == 0) {
    return NotAQuantity();
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadSuffix(text.substr(at), &parts));
  return parts;
}

}  // namespace

Result<int64_t> ParseQuantity(std::string_view text, QuantityUnit unit) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Parts parts, Split(text));
  Wide value = parts.digits << parts.shift;
  int exponent = parts.exponent + (unit == QuantityUnit::kThousandths ? 3 : 0);
  constexpr Wide kMax = std::numeric_limits<int64_t>::max();
  for (; exponent > 0 && value <= kMax; --exponent) {
    value *= 10;
  }
  bool has_rest = false;
  for (; exponent < 0 && value > 0; ++exponent) {
    has_rest = has_rest || value % 10 != 0;
    value /= 10;
  }
  value += has_rest ? 1 : 0;
  if (value > kMax) {
    return Expected(unit == QuantityUnit::kOnes ? "a quantity below 8Ei"
                                                : "a quantity of at most 9223372036854775.807");
  }
  return static_cast<int64_t>(value);
}

}  // namespace lockstep
