#include "operator/cmd/right_of_way.h"

#include <chrono>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::seconds;

constexpr TimePoint kStart{std::chrono::hours(1)};

class RightOfWayTest : public ::testing::Test {
 protected:
  void Look(Precedence precedence, TimePoint now, bool is_ready_meanwhile = false) {
    ASSERT_TRUE(right_.IsLookDue(now));
    right_.OnLook(
        right_.LookBegins(), OthersFinding{precedence, "theirs", is_ready_meanwhile}, now);
  }

  RightOfWay right_{seconds(5)};
};

TEST_F(RightOfWayTest, HolderOfTheLeaseWorksAfterALookThatFoundNobody) {
  EXPECT_FALSE(right_.IsLookDue(kStart));
  EXPECT_EQ(right_.NextLook(), std::nullopt);
  right_.OnLeaseWon(kStart);
  EXPECT_FALSE(right_.may_work()) << "nobody has looked yet";
  Look(Precedence::kFirst, kStart);
  EXPECT_TRUE(right_.may_work());
  EXPECT_FALSE(right_.GivesWay(kStart));
}

TEST_F(RightOfWayTest, LeaderLooksAgainAndGivesWayWhenItsWritesHaveEnded) {
  right_.OnLeaseWon(kStart);
  Look(Precedence::kFirst, kStart);
  EXPECT_FALSE(right_.IsLookDue(kStart + seconds(9)));
  const TimePoint later = kStart + seconds(10);
  Look(Precedence::kGiveWay, later);
  EXPECT_FALSE(right_.may_work());
  EXPECT_TRUE(right_.is_superfluous());
  EXPECT_FALSE(right_.GivesWay(later + seconds(4))) << "a write may be under way";
  EXPECT_TRUE(right_.GivesWay(later + seconds(5)));
  Look(Precedence::kGiveWay, later + seconds(5));
  EXPECT_TRUE(right_.GivesWay(later + seconds(5))) << "it was not at work since";
}

TEST_F(RightOfWayTest, WhoGaveWayReturnsOnlyAfterItsLeaseSaysSo) {
  right_.OnLeaseWon(kStart);
  Look(Precedence::kGiveWay, kStart);
  EXPECT_TRUE(right_.GivesWay(kStart)) << "it never worked";
  Look(Precedence::kReturn, kStart + seconds(5));
  EXPECT_FALSE(right_.GivesWay(kStart + seconds(5)));
  EXPECT_FALSE(right_.may_work());
  Look(Precedence::kFirst, kStart + seconds(7));
  EXPECT_TRUE(right_.may_work());
  EXPECT_FALSE(right_.is_superfluous());
}

TEST_F(RightOfWayTest, OlderOneWaitsForTheYoungerButNeverStopsForIt) {
  right_.OnLeaseWon(kStart);
  Look(Precedence::kAwait, kStart);
  EXPECT_FALSE(right_.may_work());
  EXPECT_TRUE(right_.is_superfluous());
  Look(Precedence::kFirst, kStart + seconds(2));
  Look(Precedence::kAwait, kStart + seconds(12));
  EXPECT_TRUE(right_.may_work());
  EXPECT_FALSE(right_.is_superfluous());
}

TEST_F(RightOfWayTest, SuccessorIsReadyWhileItWaitsSoThatAnUpgradeGoesOn) {
  right_.OnLeaseWon(kStart);
  Look(Precedence::kAwait, kStart, /*is_ready_meanwhile=*/true);
  EXPECT_FALSE(right_.may_work());
  EXPECT_FALSE(right_.is_superfluous());
}

TEST_F(RightOfWayTest, WithoutAnAnswerNothingChanges) {
  right_.OnLeaseWon(kStart);
  right_.OnLook(right_.LookBegins(), Error(ErrorCode::kUnavailable, "no answer"), kStart);
  EXPECT_FALSE(right_.may_work());
  Look(Precedence::kFirst, kStart + seconds(1));
  const TimePoint later = kStart + seconds(11);
  right_.OnLook(right_.LookBegins(), Error(ErrorCode::kUnavailable, "no answer"), later);
  EXPECT_TRUE(right_.may_work());
  EXPECT_TRUE(right_.IsLookDue(later + seconds(1)));
}

TEST_F(RightOfWayTest, AnswerFromBeforeTheLeaseWasLostIsVoid) {
  right_.OnLeaseWon(kStart);
  const int64_t look = right_.LookBegins();
  right_.OnLeaseLost();
  right_.OnLeaseWon(kStart + seconds(9));
  right_.OnLook(look, OthersFinding{}, kStart + seconds(9));
  EXPECT_FALSE(right_.may_work());
  EXPECT_TRUE(right_.IsLookDue(kStart + seconds(9)));
}

}  // namespace
}  // namespace lockstep::control
