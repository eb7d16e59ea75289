#include "trainer-runtime/cmd/ps_decisions.h"

#include <set>

#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "trainer-runtime/cmd/ps_shares.h"

namespace lockstep::runtime {
namespace {

TEST(PsShares, EveryUpdateIsOneShareOfOneWorker) {
  for (const int workers : {1, 2, 3, 7}) {
    const ShareDeal deal{100, workers};
    std::set<int64_t> updates;
    for (int worker = 0; worker < workers; ++worker) {
      for (int64_t share = 1; share <= SharesUpTo(deal, worker, 120); ++share) {
        EXPECT_TRUE(updates.insert(UpdateOfShare(deal, worker, share)).second);
      }
    }
    EXPECT_EQ(updates.size(), 20U) << workers << " workers";
    EXPECT_EQ(*updates.begin(), 101);
    EXPECT_EQ(*updates.rbegin(), 120);
  }
}

TEST(PsShares, NobodyHasAShareBeforeTheStart) {
  EXPECT_EQ(SharesUpTo({5, 2}, 0, 5), 0);
  EXPECT_EQ(SharesUpTo({5, 2}, 1, 6), 0);
  EXPECT_EQ(SharesUpTo({5, 2}, 1, 7), 1);
}

TEST(PsViews, TermsGrowWithEverySuccessorOfEitherPlace) {
  const std::vector<ShardView> views = ViewsOf({Incarnation(0), Incarnation(2), Incarnation(1)});

  EXPECT_EQ(views[0], (ShardView{Term(2), {Incarnation(0), Incarnation(2)}}));
  EXPECT_EQ(views[1], (ShardView{Term(3), {Incarnation(2), Incarnation(1)}}));
  EXPECT_EQ(views[2], (ShardView{Term(1), {Incarnation(1), Incarnation(0)}}));
}

TEST(PsViews, OnePsHasNoBuddy) {
  EXPECT_EQ(ViewsOf({Incarnation(3)}),
            (std::vector<ShardView>{{Term(3), {Incarnation(3), Incarnation(0)}}}));
}

CopyStanding Standing(int shard, CopyRole role) {
  CopyStanding standing;
  standing.shard = shard;
  standing.role = role;
  return standing;
}

TEST(PsIsFilled, OnceEachCopyHoldsWhatItStandsFor) {
  EXPECT_FALSE(IsFilled({}));
  EXPECT_FALSE(IsFilled({Standing(0, CopyRole::kServing), Standing(1, CopyRole::kEmpty)}));
  EXPECT_TRUE(IsFilled({Standing(0, CopyRole::kServing), Standing(1, CopyRole::kFollowing)}));
}

TEST(EndOfPs, GoesOnWhileOneCopyIsOfUse) {
  EXPECT_EQ(EndOfPs({}), std::nullopt);
  EXPECT_EQ(EndOfPs({Standing(0, CopyRole::kServing), Standing(1, CopyRole::kSuperseded)}),
            std::nullopt);
  EXPECT_EQ(EndOfPs({Standing(0, CopyRole::kEmpty), Standing(1, CopyRole::kFollowing)}),
            std::nullopt);
}

TEST(EndOfPs, SaysWhichShardIsLostOrThatItHasASuccessor) {
  const std::optional<Ending> lost =
      EndOfPs({Standing(0, CopyRole::kFollowing), Standing(1, CopyRole::kLost)});
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->exit_code, kExitRetryable);
  EXPECT_NE(lost->reason.find("shard 1 is lost"), std::string::npos);

  const std::optional<Ending> superseded = EndOfPs({Standing(0, CopyRole::kSuperseded)});
  ASSERT_TRUE(superseded.has_value());
  EXPECT_EQ(superseded->exit_code, kExitSuperseded);
}

}  // namespace
}  // namespace lockstep::runtime
