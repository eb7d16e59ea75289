#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/result.h"

namespace lockstep {

// In what a quantity is counted.
enum class QuantityUnit { kOnes, kThousandths };

// A Kubernetes quantity ("500m", "2", "2Gi", "1e3", "1.5") in the given unit, rounded up as
// Kubernetes does, with as many digits as it may have; more thousandths than int64 holds are the
// largest int64. Errors: kInvalidArgument (not a quantity, negative, more ones than int64 holds);
// the message is what was expected, without the text found.
// Source: k8s.io/apimachinery/pkg/api/resource, the grammar of Quantity.
Result<int64_t> ParseQuantity(std::string_view text, QuantityUnit unit);

}  // namespace lockstep
