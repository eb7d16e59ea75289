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

PeerStatus Peer(int rank, PeerState state, int incarnation = 0) {
  PeerStatus peer;
  peer.rank = rank;
  peer.incarnation = Incarnation(incarnation);
  peer.state = state;
  return peer;
}

TEST(IsFirstOfHolders, LowestRankThatIsLeftWithAState) {
  const auto all = Members({{true, 5}, {true, 5}, {true, 5}});
  const PeerStatus chief = Peer(0, PeerState::kConnected);
  const PeerStatus second = Peer(1, PeerState::kConnected);
  const PeerStatus third = Peer(2, PeerState::kConnected);
  EXPECT_TRUE(IsFirstOfHolders(0, all, {second, third}));
  EXPECT_FALSE(IsFirstOfHolders(1, all, {chief, third}));
  for (const PeerState state : {PeerState::kLost, PeerState::kSilent, PeerState::kMissing}) {
    EXPECT_TRUE(IsFirstOfHolders(1, all, {Peer(0, state), third}));
    EXPECT_FALSE(IsFirstOfHolders(2, all, {Peer(0, state), second}));
  }
}

TEST(IsFirstOfHolders, SuccessorsHoldNothing) {
  const auto all = Members({{true, 5}, {true, 5}});
  EXPECT_TRUE(IsFirstOfHolders(1, all, {Peer(0, PeerState::kConnected, 1)}));
  EXPECT_TRUE(
      IsFirstOfHolders(1, Members({{false, 0}, {true, 5}}), {Peer(0, PeerState::kConnected)}));
}

TEST(IsFirstOfHolders, WhoeverNeverMetIsAlone) {
  EXPECT_TRUE(IsFirstOfHolders(1, {}, {Peer(0, PeerState::kConnected)}));
}

}  // namespace
}  // namespace lockstep::runtime
