#include "trainer-runtime/strategy/finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using Float = std::numeric_limits<float>;

TEST(AllFinite, NumbersAtTheEdgesAre) {
  for (const float value : {0.0F, -0.0F, Float::max(), Float::lowest(), Float::denorm_min()}) {
    EXPECT_TRUE(AllFinite(std::vector<float>(37, value))) << value;
  }
  EXPECT_TRUE(AllFinite({}));
}

// Blocks and what is left of them.
TEST(AllFinite, OneThatIsNotIsFoundAtEveryPlace) {
  const float nan = Float::quiet_NaN();
  for (const float value :
       {nan, std::copysign(nan, -1.0F), Float::infinity(), -Float::infinity()}) {
    for (std::size_t count = 1; count <= 40; ++count) {
      for (std::size_t place = 0; place < count; ++place) {
        std::vector<float> values(count, 1.0F);
        values[place] = value;
        EXPECT_FALSE(AllFinite(values)) << value << " at " << place << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
