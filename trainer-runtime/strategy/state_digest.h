#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::runtime {

// A number that differs, but for one chance in 2^64, where the bits of the values do that it is
// made of. Equal values of one build on one architecture have equal digests: it is for ranks to
// compare, not to keep. Reads as fast as memory gives. Not for telling apart what somebody made
// alike on purpose.
class StateDigest {
 public:
  // Values come in as many parts as one likes, all but the last of a multiple of this.
  static constexpr std::size_t kPartUnit = 8;

  void Add(std::span<const float> values);

  // The same of values that are copied on the way, as fast as a copy alone: each is read once.
  // Shapes: to [values.size()], apart from `values`.
  void AddCopied(std::span<const float> values, float* to);

  // Of all that was added.
  uint64_t value() const;

 private:
  template <typename Store>
  void AddBlocks(std::span<const float> values, const Store& store);
  void AddRest(std::span<const float> values);

  uint64_t key_ = kFirstKey;  // of the next block: another for each
  uint64_t sum_ = 0;
  uint64_t other_sum_ = 0;
  uint64_t count_ = 0;

  static constexpr uint64_t kFirstKey = 1;
};

// The digest of values that are all there.
uint64_t DigestOf(std::span<const float> values);

}  // namespace lockstep::runtime
