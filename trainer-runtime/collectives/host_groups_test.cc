#include "trainer-runtime/collectives/host_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;

TEST(HostGroups, RanksOfOneHostAreTogetherInTheirOrder) {
  EXPECT_THAT(GroupByHost({"a", "a", "b", "b"}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(GroupByHost({"b", "a", "b", "c", "a"}),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4), ElementsAre(3)));
  EXPECT_EQ(GroupOf({{0, 2}, {1, 4}, {3}}, 4), 1);
}

TEST(HostGroups, RankWithoutAHostSharesWithNobody) {
  EXPECT_THAT(GroupByHost({"", "", "a"}),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

}  // namespace
}  // namespace lockstep::runtime
