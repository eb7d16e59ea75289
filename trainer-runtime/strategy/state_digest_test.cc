#include "trainer-runtime/strategy/state_digest.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

std::vector<float> Values(std::size_t count) {
  std::vector<float> values(count);
  Prng prng(11);
  for (float& value : values) {
    value = static_cast<float>(prng.Below(1'000'000)) / 1000 + 1;
  }
  return values;
}

TEST(StateDigest, EqualValuesHaveEqualDigests) {
  for (const std::size_t count : {0, 1, 15, 16, 17, 1000}) {
    EXPECT_EQ(DigestOf(Values(count)), DigestOf(Values(count))) << count;
  }
}

TEST(StateDigest, OtherSizesHaveOtherDigests) {
  std::set<uint64_t> seen;
  for (std::size_t count = 0; count < 100; ++count) {
    EXPECT_TRUE(seen.insert(DigestOf(std::vector<float>(count, 0.0F))).second) << count;
  }
}

TEST(StateDigest, EverySingleChangeShows) {
  std::set<uint64_t> seen{DigestOf(Values(67))};
  for (std::size_t i = 0; i < 67; ++i) {
    for (const float factor : {-1.0F, 2.0F, 1.0000001F}) {
      std::vector<float> values = Values(67);
      values[i] *= factor;
      EXPECT_TRUE(seen.insert(DigestOf(values)).second) << i << ", " << factor;
    }
  }
}

// Signs are the highest bits of words, which a digest that only multiplies loses.
TEST(StateDigest, TwoChangedSignsDoNotCancel) {
  std::set<uint64_t> seen{DigestOf(Values(67))};
  for (std::size_t i = 0; i < 67; ++i) {
    for (std::size_t j = i + 1; j < 67; ++j) {
      std::vector<float> values = Values(67);
      values[i] = -values[i];
      values[j] = -values[j];
      EXPECT_TRUE(seen.insert(DigestOf(values)).second) << i << ", " << j;
    }
  }
}

TEST(StateDigest, ValuesThatChangePlacesShow) {
  std::vector<float> values = Values(40);
  std::swap(values[0], values[16]);
  EXPECT_NE(DigestOf(values), DigestOf(Values(40)));
}

}  // namespace
}  // namespace lockstep::runtime
