#include "trainer-runtime/collectives/reduce/divide.h"

#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/collectives/reduce/half_float.h"

namespace lockstep::runtime {
namespace {

TEST(Divide, EachElementInItsOwnType) {
  std::vector<float> floats{3.0F, -1.0F};
  Divide(floats.data(), floats.size(), DataType::kFloat32, 3);
  EXPECT_EQ(floats, (std::vector<float>{1.0F, -1.0F / 3.0F}));
  std::vector<double> doubles{3.0, -1.0};
  Divide(doubles.data(), doubles.size(), DataType::kFloat64, 3);
  EXPECT_EQ(doubles, (std::vector<double>{1.0, -1.0 / 3.0}));
  std::vector<Float16> halves{ToFloat16(9.0F)};
  Divide(halves.data(), halves.size(), DataType::kFloat16, 4);
  EXPECT_EQ(ToFloat(halves[0]), 2.25F);
  std::vector<BFloat16> brains{ToBFloat16(9.0F)};
  Divide(brains.data(), brains.size(), DataType::kBFloat16, 4);
  EXPECT_EQ(ToFloat(brains[0]), 2.25F);
}

TEST(Divide, IntegersHaveNoMean) {
  EXPECT_FALSE(IsFloating(DataType::kInt32));
  EXPECT_FALSE(IsFloating(DataType::kInt64));
  EXPECT_FALSE(IsFloating(DataType::kUInt8));
  EXPECT_TRUE(IsFloating(DataType::kBFloat16));
}

}  // namespace
}  // namespace lockstep::runtime
