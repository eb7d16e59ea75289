#include "trainer-runtime/session/state_source.h"

#include <utility>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// Members that hold a state or not, and the last step of each, by rank.
std::vector<MemberFacts> Members(const std::vector<std::pair<bool, int>>& held) {
  std::vector<MemberFacts> members;
  for (const auto& [has_state, step] : held) {
    MemberFacts member;
    member.rank = static_cast<int>(members.size());
    member.has_state = has_state;
    member.last_applied = Step(step);
    members.push_back(member);
  }
  return members;
}

TEST(PickStateSource, LowestRankOfThoseAhead) {
  EXPECT_EQ(PickStateSource(Members({{false, 0}, {false, 0}})), std::nullopt);
  EXPECT_EQ(PickStateSource(Members({{false, 0}, {true, 0}})), 1);
  EXPECT_EQ(PickStateSource(Members({{true, 4}, {true, 5}, {true, 5}})), 1);
  EXPECT_EQ(PickStateSource(Members({{true, 5}, {false, 9}, {true, 5}})), 0);
}

}  // namespace
}  // namespace lockstep::runtime
