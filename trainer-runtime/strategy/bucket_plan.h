#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::runtime {

// A contiguous range of the flat gradient buffer that is reduced in one collective call.
struct Bucket {
  int64_t element_offset = 0;
  int64_t element_count = 0;

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Cuts `element_count` float32 gradients into buckets of at most `bytes_per_pack` bytes, in order,
// without gap or overlap. At least one element a bucket, however small the limit; no bucket for
// nothing. Preconditions (checked): both arguments >= 0.
std::vector<Bucket> PlanBuckets(int64_t element_count, int64_t bytes_per_pack);

}  // namespace lockstep::runtime
