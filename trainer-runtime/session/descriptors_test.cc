#include "trainer-runtime/session/descriptors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(Descriptors, LimitIsRaisedOnlyWhereRanksNeedIt) {
  EXPECT_EQ(DescriptorLimitFor(3, 1024, 4096).value(), 1024U);
  EXPECT_EQ(DescriptorLimitFor(1024, 1024, 1 << 20).value(), 3U * 1023 + 256);
  EXPECT_EQ(DescriptorLimitFor(1024, 1024, 3200).value(), 3200U) << "as far as may be";
  EXPECT_EQ(DescriptorLimitFor(1024, 1 << 20, 1 << 20).value(), 1U << 20U);
}

TEST(Descriptors, WantOfThemIsTheUsersToCure) {
  const auto refused = DescriptorLimitFor(400, 1024, 1024);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(),
              testing::AllOf(testing::HasSubstr("400 ranks need 1229"),
                             testing::HasSubstr("may open at most 1024")));
}

}  // namespace
}  // namespace lockstep::runtime
