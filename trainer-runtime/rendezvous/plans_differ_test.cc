// What rank 1 of three hears when rank 2 has another plan: that it has, whoever leaves first.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/rendezvous/membership.h"

namespace lockstep::runtime {
namespace {

constexpr Epoch kMeetingEpoch{4};
constexpr LinkId kZero{10};
constexpr LinkId kTwo{12};
constexpr TimePoint kMoment{std::chrono::seconds(50)};

Hello HelloOf(int rank) {
  return Hello{MeshIdentity{"uid", Attempt(1), rank, 3, Incarnation(0)}, "host"};
}

class Rank1 {
 public:
  // It has met nobody, and knows both others and what they come with.
  Rank1() : membership_({HelloOf(1), kMeetingEpoch}, kMoment) {
    Do(event::HelloReceived{kZero, HelloOf(0)});
    Do(event::HelloReceived{kTwo, HelloOf(2)});
    Do(event::MeetRequested{SelfFacts{}, Epoch(0), kMoment + std::chrono::seconds(10)});
    Hear(kZero, 0);
    Hear(kTwo, 0);
    for (const Action& action : actions_) {
      if (const auto* send = std::get_if<action::Send>(&action)) {
        agreement_ = send->state.agreement;
      }
    }
    EXPECT_NE(agreement_, 0U);
  }

  void Do(const Event& event) { actions_ = membership_.Apply(event, kMoment); }

  void Hear(LinkId link, uint64_t agreement) {
    MemberState state;
    state.epoch = kMeetingEpoch;
    state.joined = true;
    state.agreement = agreement;
    state.facts.plan_hash = link == kTwo ? 7 : 0;
    Do(event::StateReceived{link, state});
  }

  void HearAgreement(LinkId link) { Hear(link, agreement_); }

  bool IsTold() const { return Index<action::PlansDiffer>() < actions_.size(); }

  // Where the first action of that kind is; their number if there is none.
  template <typename A>
  std::size_t Index() const {
    const auto found = std::find_if(actions_.begin(), actions_.end(), [](const Action& action) {
      return std::holds_alternative<A>(action);
    });
    return static_cast<std::size_t>(found - actions_.begin());
  }

  const std::vector<Action>& actions() const { return actions_; }

 private:
  Membership membership_;
  std::vector<Action> actions_;
  uint64_t agreement_ = 0;
};

TEST(PlansDiffer, IsToldWhenAllHaveAgreed) {
  Rank1 rank;
  EXPECT_FALSE(rank.IsTold()) << "the others may not have heard of all plans";
  rank.HearAgreement(kZero);
  EXPECT_FALSE(rank.IsTold());
  rank.HearAgreement(kTwo);
  ASSERT_TRUE(rank.IsTold());
  EXPECT_EQ(std::get<action::PlansDiffer>(rank.actions()[rank.Index<action::PlansDiffer>()]).rank,
            2);
  EXPECT_EQ(rank.Index<action::Formed>(), rank.actions().size()) << "nobody is connected for it";
}

TEST(PlansDiffer, IsToldToWhoAgreedAndLosesOneThatHasHeardFromAll) {
  Rank1 rank;
  rank.HearAgreement(kZero);
  rank.Do(event::LinkLost{kZero});
  ASSERT_TRUE(rank.IsTold()) << "it would meet again, and wait for rank 0";
  EXPECT_LT(rank.Index<action::Send>(), rank.Index<action::PlansDiffer>())
      << "whoever is told may end at once";
  rank.HearAgreement(kTwo);
  EXPECT_FALSE(rank.IsTold()) << "once is enough";
}

}  // namespace
}  // namespace lockstep::runtime
