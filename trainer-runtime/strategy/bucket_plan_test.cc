#include "trainer-runtime/strategy/bucket_plan.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(PlanBuckets, CoversEveryElementOnceForAllSmallSizes) {
  for (int64_t element_count = 0; element_count <= 40; ++element_count) {
    for (int64_t bytes_per_pack = 0; bytes_per_pack <= 200; ++bytes_per_pack) {
      int64_t next = 0;
      for (const Bucket& bucket : PlanBuckets(element_count, bytes_per_pack)) {
        ASSERT_EQ(bucket.element_offset, next);
        ASSERT_GT(bucket.element_count, 0);
        ASSERT_TRUE(bucket.element_count * 4 <= bytes_per_pack || bucket.element_count == 1);
        next += bucket.element_count;
      }
      ASSERT_EQ(next, element_count);
    }
  }
}

TEST(PlanBuckets, WholeBufferFitsOneBucketWhenTheLimitAllows) {
  EXPECT_EQ(PlanBuckets(100, 400), (std::vector<Bucket>{{0, 100}}));
}

}  // namespace
}  // namespace lockstep::runtime
