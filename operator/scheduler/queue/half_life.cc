#include "operator/scheduler/queue/half_life.h"

#include <algorithm>
#include <array>

namespace lockstep::control {
namespace {

constexpr unsigned kMeanBits = 30;
constexpr unsigned kFactorBits = 32;
constexpr uint64_t kOne = uint64_t{1} << kFactorBits;
constexpr int64_t kThousand = 1000;

// Rounded.
constexpr uint64_t SquareRoot(uint64_t square) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 31U; bit > 0; bit >>= 1U) {
    if ((root + bit) * (root + bit) <= square) {
      root += bit;
    }
  }
  return square - root * root > root ? root + 1 : root;
}

// Of two that are at most kOne. Rounded: what is cut off each time would add up to a shorter
// half-life.
constexpr uint64_t Product(uint64_t a, uint64_t b) {
  return a == kOne ? b : b == kOne ? a : (a * b + kOne / 2) >> kFactorBits;
}

// 2^-(1/2), 2^-(1/4), ...
constexpr std::array<uint64_t, kFactorBits> Roots() {
  std::array<uint64_t, kFactorBits> roots{};
  uint64_t last = kOne / 2;
  for (uint64_t& root : roots) {
    root = SquareRoot(last << kFactorBits);
    last = std::min(root, kOne - 1);  // the square of kOne has no room
  }
  return roots;
}

// `value` times `factor`; without a product that could overflow.
int64_t Scaled(int64_t value, uint64_t factor) {
  const auto whole = static_cast<uint64_t>(value) >> kFactorBits;
  const uint64_t rest = static_cast<uint64_t>(value) & (kOne - 1);
  const uint64_t part = factor == kOne ? rest : (rest * factor) >> kFactorBits;
  return static_cast<int64_t>(whole * factor + part);
}

}  // namespace

uint64_t DecayFactor(std::chrono::milliseconds elapsed, std::chrono::milliseconds half_life) {
  static constexpr std::array<uint64_t, kFactorBits> kRoots = Roots();
  const int64_t halvings = elapsed / half_life;
  if (halvings >= int64_t{kFactorBits}) {
    return 0;
  }
  uint64_t factor = kOne >> static_cast<unsigned>(halvings);
  std::chrono::milliseconds rest = elapsed % half_life;
  for (const uint64_t root : kRoots) {
    rest *= 2;
    if (rest >= half_life) {
      rest -= half_life;
      factor = Product(factor, root);
    }
  }
  return factor;
}

int64_t DecayingMean::Thousandths() const {
  const int64_t whole = value >> kMeanBits;
  const int64_t rest = value - (whole << kMeanBits);
  return whole * kThousand + ((rest * kThousand) >> kMeanBits);
}

DecayingMean DecayingMean::OfThousandths(int64_t thousandths) {
  const int64_t whole = std::min(thousandths / kThousand, kMeanAmountMax);
  // Rounded up, so that it reads as it was written.
  const int64_t rest = (((thousandths % kThousand) << kMeanBits) + kThousand - 1) / kThousand;
  return {(whole << kMeanBits) + rest};
}

void DecayingMean::Hold(int64_t amount,
                        std::chrono::milliseconds elapsed,
                        std::chrono::milliseconds half_life) {
  const int64_t held = std::min(amount, kMeanAmountMax) << kMeanBits;
  const uint64_t factor = DecayFactor(elapsed, half_life);
  value = value >= held ? held + Scaled(value - held, factor) : held - Scaled(held - value, factor);
}

}  // namespace lockstep::control
