#include "trainer-runtime/strategy/bucket_plan.h"

#include <numeric>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// All lists of up to three tensors of up to `largest` elements.
std::vector<std::vector<int64_t>> SmallModels(int64_t largest) {
  std::vector<std::vector<int64_t>> models = {{}};
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (int64_t size = 0; models[i].size() < 3 && size <= largest; ++size) {
      std::vector<int64_t> longer = models[i];
      longer.push_back(size);
      models.push_back(std::move(longer));
    }
  }
  return models;
}

TEST(PlanBuckets, CoversEveryElementOnceFromTheLastToTheFirst) {
  for (const std::vector<int64_t>& sizes : SmallModels(6)) {
    for (int64_t bytes_max = 0; bytes_max <= 40; bytes_max += 3) {
      for (int64_t bytes_min = 0; bytes_min <= 40; bytes_min += 5) {
        int64_t end = std::reduce(sizes.begin(), sizes.end());
        for (const Bucket& bucket : PlanBuckets(sizes, {bytes_min, bytes_max})) {
          ASSERT_GT(bucket.element_count, 0);
          ASSERT_TRUE(bucket.element_count * 4 <= bytes_max || bucket.element_count == 1);
          ASSERT_EQ(bucket.element_offset + bucket.element_count, end);
          end = bucket.element_offset;
        }
        ASSERT_EQ(end, 0);
      }
    }
  }
}

TEST(PlanBuckets, BucketWithEnoughEndsWithItsTensor) {
  const std::vector<int64_t> sizes = {3, 10, 4, 2, 5};
  // 5 elements are too few, 7 enough; 4 are too few, and with 10 more they pass the largest size.
  EXPECT_EQ(PlanBuckets(sizes, {24, 48}), (std::vector<Bucket>{{17, 7}, {5, 12}, {0, 5}}));
}

TEST(PlanBuckets, ModelBelowTheSmallestSizeIsOneBucket) {
  const std::vector<int64_t> sizes = {100, 10, 20, 5};
  EXPECT_EQ(PlanBuckets(sizes, {kBucketBytesMin, 4 * kBucketBytesMin}),
            (std::vector<Bucket>{{0, 135}}));
}

TEST(BucketProgress, BucketIsCompleteWhenEveryReplicaHasAllOfIt) {
  const std::vector<Bucket> plan = {{7, 3}, {4, 3}, {0, 4}};
  BucketProgress progress(plan, 2);
  EXPECT_EQ(progress.Ready(5, 5), 0U);  // one replica
  EXPECT_EQ(progress.Ready(8, 2), 0U);  // the other
  EXPECT_EQ(progress.Ready(0, 5), 0U);  // the one is done
  EXPECT_EQ(progress.Ready(6, 2), 1U);
  EXPECT_EQ(progress.Ready(0, 6), 3U);
}

TEST(BucketProgress, BucketThatIsCompleteEarlyWaitsForThoseBefore) {
  const std::vector<Bucket> plan = {{2, 1}, {1, 1}, {0, 1}};
  BucketProgress progress(plan, 1);
  EXPECT_EQ(progress.Ready(1, 1), 0U);
  EXPECT_EQ(progress.Ready(0, 1), 0U);
  EXPECT_EQ(progress.Ready(2, 1), 3U);
}

}  // namespace
}  // namespace lockstep::runtime
