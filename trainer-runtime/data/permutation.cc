#include "trainer-runtime/data/permutation.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/prng.h"

namespace lockstep::runtime {

std::vector<int64_t> EpochPermutation(int64_t seed,
                                      int64_t data_epoch,
                                      int64_t sample_count,
                                      bool shuffle) {
  LOCKSTEP_CHECK(sample_count >= 0, "sample_count is " + std::to_string(sample_count));
  std::vector<int64_t> order(static_cast<std::size_t>(sample_count));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!shuffle) {
    return order;
  }
  // Mixing twice keeps (seed, epoch) apart from (seed + 1, epoch - 1).
  Prng prng(Mix64(Mix64(static_cast<uint64_t>(seed)) + static_cast<uint64_t>(data_epoch)));
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[prng.Below(left)]);
  }
  return order;
}

}  // namespace lockstep::runtime
