#include "trainer-runtime/strategy/bucket_plan.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"

namespace lockstep::runtime {

std::vector<Bucket> PlanBuckets(std::span<const int64_t> tensor_sizes, const BucketLimits& limits) {
  LOCKSTEP_CHECK(limits.bytes_min >= 0 && limits.bytes_max >= 0, "the bucket limits are negative");
  constexpr int64_t kElementSize = sizeof(float);
  const int64_t count_max = std::max<int64_t>(1, limits.bytes_max / kElementSize);
  std::vector<Bucket> buckets;
  int64_t tensor_begin = std::reduce(tensor_sizes.begin(), tensor_sizes.end(), int64_t{0});
  int64_t bucket_end = tensor_begin;
  const auto close_at = [&](int64_t begin) {
    buckets.push_back({begin, bucket_end - begin});
    bucket_end = begin;
  };
  for (std::size_t i = tensor_sizes.size(); i-- > 0;) {
    LOCKSTEP_CHECK(tensor_sizes[i] >= 0, "the size of a tensor is negative");
    tensor_begin -= tensor_sizes[i];
    while (bucket_end - tensor_begin > count_max) {
      close_at(bucket_end - count_max);
    }
    const int64_t open_count = bucket_end - tensor_begin;
    if (open_count > 0 && open_count * kElementSize >= limits.bytes_min) {
      close_at(tensor_begin);
    }
  }
  if (bucket_end > 0) {
    close_at(0);
  }
  return buckets;
}

std::vector<int64_t> BeginsOf(std::span<const Bucket> buckets) {
  std::vector<int64_t> begins;
  for (const Bucket& bucket : buckets) {
    begins.push_back(bucket.element_offset);
  }
  return begins;
}

BucketProgress::BucketProgress(const std::vector<Bucket>& plan, int replica_count) : plan_(plan) {
  for (const Bucket& bucket : plan_) {
    missing_.push_back(bucket.element_count * replica_count);
  }
}

std::size_t BucketProgress::Ready(int64_t offset, int64_t count) {
  // Those before are complete; those whose end is not above `offset` lie below the range.
  for (std::size_t i = complete_count_; i < plan_.size(); ++i) {
    const int64_t begin = plan_[i].element_offset;
    const int64_t end = begin + plan_[i].element_count;
    if (end <= offset) {
      break;
    }
    missing_[i] -= std::max<int64_t>(0, std::min(end, offset + count) - std::max(begin, offset));
    LOCKSTEP_CHECK(missing_[i] >= 0, "some gradients were reported as ready twice");
  }
  while (complete_count_ < plan_.size() && missing_[complete_count_] == 0) {
    ++complete_count_;
  }
  return complete_count_;
}

}  // namespace lockstep::runtime
