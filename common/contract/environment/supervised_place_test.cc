#include "common/contract/environment/supervised_place.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(SupervisedPlace, IsReadAsItWasWritten) {
  const SupervisedPlace place{3, 2, 17};
  const auto read = ParseSupervisedPlace(RenderSupervisedPlace(place));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(*read, place);
}

TEST(SupervisedPlace, IsEmptyWithoutASupervisor) {
  const auto read = ParseSupervisedPlace({{"LOCKSTEP_RANK", "0"}});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, std::nullopt);
}

TEST(SupervisedPlace, NamesTheVariableAtFault) {
  for (const char* const text : {"", "x", "-1", "1x", "99999999999"}) {
    EnvironmentMap variables = RenderSupervisedPlace({0, 0, 5});
    variables[env::kProcessStart] = text;
    const auto read = ParseSupervisedPlace(variables);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(read.error().field(), env::kProcessStart);
  }
}

TEST(SupervisedPlace, ProcessesAreCountedWithinThePodsCount) {
  EXPECT_EQ(IncarnationOfProcess(Incarnation(1), 1), Incarnation(1001));
  EXPECT_EQ(IncarnationOfPod(Incarnation(1001)), Incarnation(1));
}

}  // namespace
}  // namespace lockstep
