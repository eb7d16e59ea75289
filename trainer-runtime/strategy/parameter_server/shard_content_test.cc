#include "trainer-runtime/strategy/parameter_server/shard_content.h"

#include <gtest/gtest.h>

#include "trainer-runtime/strategy/parameter_server/testing/shard_values.h"

namespace lockstep::runtime {
namespace {

using testing::AppendDigit;
using testing::kFirst;
using testing::kFirstAgain;
using testing::kSecond;
using testing::Values;

class ShardContentTest : public ::testing::Test {
 protected:
  ShardContentTest() { Take(entry::Seed{Values({0}), Values({0}), 5, kGateOpen, ""}); }

  void Take(const ShardEntry& entry) { content_.Take(entry, AppendDigit); }

  ShardContent content_;
};

TEST_F(ShardContentTest, PushesAreAppliedInTheirOrderAndCountedOn) {
  Take(entry::Admit{kFirst});
  Take(entry::Push{kFirst, 1, Values({3}), {}});
  Take(entry::Push{kFirst, 2, Values({4}), {}});

  EXPECT_EQ(content_.parameters, std::vector<float>{34});
  EXPECT_EQ(content_.slots, std::vector<float>{7});
  EXPECT_EQ(content_.update_count, 7);
  EXPECT_EQ(content_.entry_count, 4);
}

TEST_F(ShardContentTest, OnlyTheFirstSeedCounts) {
  Take(entry::Seed{Values({9}), Values({9}), 100, kGateOpen, ""});

  EXPECT_EQ(content_.parameters, std::vector<float>{0});
  EXPECT_EQ(content_.update_count, 5);
}

TEST_F(ShardContentTest, PushIsJudgedByItsNumberAndProcess) {
  EXPECT_EQ(content_.Judge(kFirst, 1), PushStanding::kNext);
  EXPECT_EQ(content_.Judge(kFirst, 2), PushStanding::kTooEarly);

  Take(entry::Admit{kFirst});
  Take(entry::Push{kFirst, 1, Values({3}), {}});
  EXPECT_EQ(content_.Judge(kFirst, 1), PushStanding::kDone);
  EXPECT_EQ(content_.Judge(kFirst, 2), PushStanding::kNext);
  EXPECT_EQ(content_.Judge(kFirst, 3), PushStanding::kTooEarly);

  Take(entry::Admit{kFirstAgain});
  EXPECT_EQ(content_.Judge(kFirst, 2), PushStanding::kOutdated);
  EXPECT_EQ(content_.Judge(kFirstAgain, 1), PushStanding::kDone) << "its predecessor made it";
  EXPECT_EQ(content_.Judge(kFirstAgain, 2), PushStanding::kNext);
}

TEST_F(ShardContentTest, NewcomerStandsWhereTheSlowestDoes) {
  Take(entry::Admit{kFirst});
  Take(entry::Push{kFirst, 1, Values({1}), {}});
  Take(entry::Push{kFirst, 2, Values({1}), {}});
  Take(entry::Admit{kSecond});

  EXPECT_EQ(content_.workers[1].clock, 2);
  EXPECT_EQ(content_.workers[1].sequence, 0);
}

TEST_F(ShardContentTest, WorkerTooFarAheadMayNotBeginUntilTheSlowestPushes) {
  Take(entry::Admit{kFirst});
  Take(entry::Admit{kSecond});
  Take(entry::Push{kFirst, 1, Values({1}), {}});
  EXPECT_TRUE(content_.MayBegin(0, 1));
  EXPECT_FALSE(content_.MayBegin(0, 0));
  EXPECT_TRUE(content_.MayBegin(1, 0));

  Take(entry::Push{kSecond, 1, Values({1}), {}});
  EXPECT_TRUE(content_.MayBegin(0, 0));
}

TEST_F(ShardContentTest, NobodyWaitsForWhoWasRetiredOrReplaced) {
  Take(entry::Admit{kFirst});
  Take(entry::Admit{kSecond});
  Take(entry::Push{kSecond, 1, Values({1}), {}});
  ASSERT_EQ(content_.SlowestClock(), 0);

  Take(entry::Admit{kFirstAgain});
  EXPECT_EQ(content_.SlowestClock(), 1);

  Take(entry::Retire{1, Incarnation(1)});
  Take(entry::Retire{0, Incarnation(2)});
  EXPECT_EQ(content_.SlowestClock(), std::nullopt);
  EXPECT_TRUE(content_.IsOutdated(kFirstAgain));
}

}  // namespace
}  // namespace lockstep::runtime
