#include "trainer-runtime/strategy/state_digest.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
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

// Far apart, where a key that came back would be the same again.
TEST(StateDigest, PartsThatChangePlacesShow) {
  std::vector<float> values = Values(1 << 20);
  const uint64_t before = DigestOf(values);
  for (std::size_t distance = 1; distance < values.size() / 2; distance *= 2) {
    std::swap_ranges(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(distance),
                     values.begin() + static_cast<std::ptrdiff_t>(distance));
    EXPECT_NE(DigestOf(values), before) << distance;
    std::swap_ranges(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(distance),
                     values.begin() + static_cast<std::ptrdiff_t>(distance));
  }
}

TEST(StateDigest, PartsHaveTheDigestOfTheWhole) {
  const std::vector<float> values = Values(1003);
  for (const std::size_t part : {std::size_t{8}, std::size_t{16}, std::size_t{1000}}) {
    StateDigest digest;
    for (std::size_t done = 0; done < values.size(); done += part) {
      digest.Add(std::span(values).subspan(done, std::min(part, values.size() - done)));
    }
    EXPECT_EQ(digest.value(), DigestOf(values)) << part;
  }
}

// Wherever they begin, and nothing beside them changes.
TEST(StateDigest, CopiedValuesHaveTheirDigestAndAreAllThere) {
  for (const std::size_t count : {0, 1, 3, 7, 8, 9, 31, 32, 1003}) {
    for (std::size_t from = 0; from < 5; ++from) {
      for (std::size_t to = 1; to < 6; ++to) {
        const std::vector<float> all = Values(count + from);
        const auto values = std::span(all).subspan(from);
        std::vector<float> room(count + to + 1, -1.0F);
        StateDigest digest;
        digest.AddCopied(values, room.data() + to);
        EXPECT_EQ(digest.value(), DigestOf(values));
        EXPECT_TRUE(std::ranges::equal(std::span(room).subspan(to, count), values))
            << count << " from " << from << " to " << to;
        EXPECT_EQ(room[to - 1], -1.0F);
        EXPECT_EQ(room[to + count], -1.0F);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
