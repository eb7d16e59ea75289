#include "trainer-runtime/strategy/bucket_plan.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep::runtime {

std::vector<Bucket> PlanBuckets(int64_t element_count, int64_t bytes_per_pack) {
  LOCKSTEP_CHECK(element_count >= 0 && bytes_per_pack >= 0, "negative bucket plan");
  constexpr int64_t kElementSize = sizeof(float);
  const int64_t elements_per_pack = std::max<int64_t>(1, bytes_per_pack / kElementSize);
  std::vector<Bucket> buckets;
  for (int64_t offset = 0; offset < element_count; offset += elements_per_pack) {
    buckets.push_back({offset, std::min(elements_per_pack, element_count - offset)});
  }
  return buckets;
}

}  // namespace lockstep::runtime
