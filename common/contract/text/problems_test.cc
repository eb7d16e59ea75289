#include "common/contract/text/problems.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const Error kUnknown(ErrorCode::kUnknownField, "unknown field");
const Error kMissing(ErrorCode::kMissingField, "missing");
const Error kWrong = Problem("size", "-1", "a whole number of at least 0");

TEST(MayBeNewer, NeedsWhatIsNotKnownAndNothingThatIsWrongInEveryVersion) {
  EXPECT_FALSE(MayBeNewer({}));
  EXPECT_TRUE(MayBeNewer({kUnknown}));
  EXPECT_FALSE(MayBeNewer({kMissing}));
  EXPECT_FALSE(MayBeNewer({kWrong}));
  EXPECT_TRUE(MayBeNewer({kMissing, kUnknown}));
  EXPECT_FALSE(MayBeNewer({kUnknown, kWrong}));
  EXPECT_FALSE(MayBeNewer({kWrong, kUnknown, kMissing}));
}

TEST(CombineProblems, DocumentWithFieldsThatAreNotKnownOrMissingIsAWrongArgument) {
  EXPECT_EQ(CombineProblems({kUnknown, kWrong}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CombineProblems({kMissing}).code(), ErrorCode::kInvalidArgument);
  const Error large(ErrorCode::kResourceExhausted, "too long");
  EXPECT_EQ(CombineProblems({large, kUnknown}).code(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep
