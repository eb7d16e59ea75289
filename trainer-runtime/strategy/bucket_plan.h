#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::runtime {

// A contiguous range of the flat gradient buffer that is reduced in one collective call.
struct Bucket {
  int64_t element_offset = 0;
  int64_t element_count = 0;

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct BucketLimits {
  int64_t bytes_min = 0;  // a bucket that has them ends with its tensor
  int64_t bytes_max = 0;  // no bucket has more
};

// From so many bytes on a bucket does not wait for the next tensor. Choice: as PyTorch's first one;
// 8 ms of a link of 1 Gbit/s, beside which a call's own trip of a millisecond is little.
inline constexpr int64_t kBucketBytesMin = int64_t{1} << 20U;

// Cuts the float32 gradients of tensors of so many elements, which lie one after the other, into
// buckets in the order in which backward makes them: from the last element to the first, without
// gap or overlap. A bucket ends where a tensor begins and it has bytes_min, or where it has
// bytes_max:
//
//   tensors   | a         | b | c | d             |
//   buckets   | 3         | 2     | 1     | 0     |    of bytes_max: 0; of bytes_min: 2
//
// At least one element a bucket, however small the limits; no bucket for nothing; one for all that
// has less than bytes_min. Preconditions (checked): nothing is negative.
std::vector<Bucket> PlanBuckets(std::span<const int64_t> tensor_sizes, const BucketLimits& limits);

// The buckets of a model, by when they are summed.
struct BucketPlans {
  std::vector<Bucket> beside;      // backward, as soon as it has made one: they end with tensors
  std::vector<Bucket> afterwards;  // as few as the largest size allows: each costs a call
};

// The first element of each, in their order.
std::vector<int64_t> BeginsOf(std::span<const Bucket> buckets);

// Which buckets are complete, as several replicas report one after the other which of their
// gradients are ready. Pure.
class BucketProgress {
 public:
  // `plan` as PlanBuckets makes it; it must outlive this object.
  BucketProgress(const std::vector<Bucket>& plan, int replica_count);

  // Elements [offset, offset + count) are ready on one replica, and have not been before. Returns
  // how many buckets, in the plan's order and without a gap, are now ready on all replicas.
  std::size_t Ready(int64_t offset, int64_t count);

 private:
  const std::vector<Bucket>& plan_;
  std::vector<int64_t> missing_;    // [buckets] elements, of all replicas together
  std::size_t complete_count_ = 0;  // buckets
};

}  // namespace lockstep::runtime
