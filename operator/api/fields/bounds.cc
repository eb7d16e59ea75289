#include "operator/api/fields/bounds.h"

#include <limits>
#include <string>

namespace lockstep::control {
namespace {

constexpr std::size_t kExponentDigitsMax = 2;

std::size_t ExponentDigits(std::string_view text) {
  const std::size_t at = text.find_first_of("eE");
  std::string_view exponent = at == std::string_view::npos ? "" : text.substr(at + 1);
  if (exponent.starts_with('+') || exponent.starts_with('-')) {
    exponent.remove_prefix(1);
  }
  return exponent.size();
}

// Kubernetes takes all that is larger for the largest number that an int64 holds, so that a rule
// cannot tell 8Ei from it, and what is written with a point or as a power from a little less.
bool IsLargest(std::string_view text) {
  const Result<int64_t> ones = ParseQuantity(text, QuantityUnit::kOnes);
  return ones.ok() && *ones == std::numeric_limits<int64_t>::max() &&
         text.find_first_of(".-mnu") == std::string_view::npos;
}

}  // namespace

Result<int64_t> ReadQuantityText(std::string_view text, QuantityUnit unit) {
  if (text.size() > kQuantityTextMax) {
    return Error(ErrorCode::kInvalidArgument,
                 "a quantity of at most " + std::to_string(kQuantityTextMax) + " characters");
  }
  Result<int64_t> quantity = ParseQuantity(text, unit);
  if (quantity.ok() && IsLargest(text)) {
    return Error(ErrorCode::kInvalidArgument, "a quantity below 8Ei");
  }
  if (quantity.ok() && ExponentDigits(text) > kExponentDigitsMax) {
    return Error(ErrorCode::kInvalidArgument, "a quantity with an exponent from -99 to 99");
  }
  return quantity;
}

}  // namespace lockstep::control
