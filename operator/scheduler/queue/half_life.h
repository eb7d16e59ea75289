#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::control {

// Past use of amounts of resources by queue: for each the mean of what gangs of it, and of those
// below it, have held, of which what lies one half-life further back counts half as much. In
// thousandths of the units of ResourceVector.
//
// Whole numbers alone, so that equal histories give equal means on every machine.

// The largest amount that a mean is kept of; more counts as that.
inline constexpr int64_t kMeanAmountMax = int64_t{1} << 32U;

// A mean in 2^-30 of a unit: so that what a few seconds add is not lost.
struct DecayingMean {
  int64_t value = 0;

  // In thousandths of a unit, rounded down.
  int64_t Thousandths() const;
  static DecayingMean OfThousandths(int64_t thousandths);

  // `amount` has been held for so long. Not negative: `amount`, `elapsed`. Above 0: `half_life`.
  void Hold(int64_t amount, std::chrono::milliseconds elapsed, std::chrono::milliseconds half_life);
};

// 2 to the power of -elapsed / half_life, in 2^-32; exact to a few of these.
uint64_t DecayFactor(std::chrono::milliseconds elapsed, std::chrono::milliseconds half_life);

}  // namespace lockstep::control
