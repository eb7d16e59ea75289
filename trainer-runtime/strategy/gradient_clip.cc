#include "trainer-runtime/strategy/gradient_clip.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace lockstep::runtime {
namespace {

// In so many sums side by side, which the compiler adds several at a time. A square of a float32 is
// exact in a double, and so many of the largest ones do not overflow.
constexpr std::size_t kLanes = 8;

double LengthOf(std::span<const float> values) {
  std::array<double, kLanes> squares{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      squares[lane] += value * value;
    }
  }
  for (; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    squares[0] += value * value;
  }
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

}  // namespace

std::optional<float> ClipFactor(double norm_max, double length) {
  if (!std::isfinite(length) || length <= norm_max) {
    return std::nullopt;
  }
  return static_cast<float>(norm_max / length);
}

void ClipGradients(double norm_max, std::span<float> gradients) {
  const std::optional<float> factor = ClipFactor(norm_max, LengthOf(gradients));
  if (!factor.has_value()) {
    return;
  }
  const float by = *factor;
  for (float& gradient : gradients) {
    gradient *= by;
  }
}

}  // namespace lockstep::runtime
