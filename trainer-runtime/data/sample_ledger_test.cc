#include "trainer-runtime/data/sample_ledger.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

std::vector<int64_t> Ids(int64_t count) {
  std::vector<int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), int64_t{0});
  return ids;
}

TEST(SampleLedger, PerfectEpochHasNothingLostOrRepeated) {
  SampleLedger ledger(10);
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(ledger.Add(std::vector<int64_t>{9, 1, 3, 5, 7}).ok());
    ASSERT_TRUE(ledger.Add(std::vector<int64_t>{0, 2, 4, 6, 8}).ok());
    ledger.CloseEpoch(Ids(10));
  }
  EXPECT_EQ(ledger.totals(), (SampleTotals{30, 30, 0, 0}));
}

// Plants a known number of losses and repeats at random places and asks for exactly those back.
TEST(SampleLedger, CountsPlantedFaultsExactly) {
  Prng prng(20261121);
  for (int round = 0; round < 200; ++round) {
    const int64_t count = 1 + static_cast<int64_t>(prng.Below(60));
    std::vector<int64_t> used = Ids(count);
    int64_t lost = 0;
    int64_t repeated = 0;
    for (int64_t id = count - 1; id >= 0; --id) {
      const uint64_t fate = prng.Below(6);
      if (fate == 0) {
        used.erase(used.begin() + id);
        ++lost;
      } else if (fate < 3) {
        used.insert(used.end(), fate, id);
        repeated += static_cast<int64_t>(fate);
      }
    }
    SampleLedger ledger(count);
    ASSERT_TRUE(ledger.Add(used).ok());
    ledger.CloseEpoch(Ids(count));
    EXPECT_EQ(ledger.totals(),
              (SampleTotals{static_cast<int64_t>(used.size()), count, lost, repeated}))
        << "round " << round;
  }
}

TEST(SampleLedger, LossInOneEpochIsNotHealedByRepeatInAnother) {
  SampleLedger ledger(3);
  ASSERT_TRUE(ledger.Add(std::vector<int64_t>{0, 1}).ok());
  ledger.CloseEpoch(Ids(3));
  ASSERT_TRUE(ledger.Add(std::vector<int64_t>{0, 1, 2, 2}).ok());
  ledger.CloseEpoch(Ids(3));
  EXPECT_EQ(ledger.totals(), (SampleTotals{6, 6, 1, 1}));
}

TEST(SampleLedger, JobThatEndsInMidEpochExpectsItsPartOnly) {
  SampleLedger ledger(6);
  ASSERT_TRUE(ledger.Add(std::vector<int64_t>{4, 2}).ok());
  EXPECT_EQ(ledger.TotalsIfClosed(std::vector<int64_t>{4, 2, 5}), (SampleTotals{2, 3, 1, 0}));
  ledger.CloseEpoch(std::vector<int64_t>{4, 2});
  EXPECT_EQ(ledger.totals(), (SampleTotals{2, 2, 0, 0}));
}

TEST(SampleLedger, SampleOutsideTheExpectedSetIsASurplusUse) {
  SampleLedger ledger(6);
  ASSERT_TRUE(ledger.Add(std::vector<int64_t>{4, 3}).ok());
  ledger.CloseEpoch(std::vector<int64_t>{4, 2});
  EXPECT_EQ(ledger.totals(), (SampleTotals{2, 2, 1, 1}));
}

TEST(SampleLedger, RefusesUnknownSampleAndCountsNothing) {
  SampleLedger ledger(3);
  for (const int64_t bad : {int64_t{-1}, int64_t{3}}) {
    const Status status = ledger.Add(std::vector<int64_t>{0, 1, bad});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ErrorCode::kCorrupt);
  }
  EXPECT_EQ(ledger, SampleLedger(3));
}

TEST(SampleLedger, RefusesToWrapACounter) {
  SampleLedger ledger(1);
  const std::vector<int64_t> many(std::numeric_limits<uint16_t>::max(), 0);
  ASSERT_TRUE(ledger.Add(many).ok());
  EXPECT_FALSE(ledger.Add(std::vector<int64_t>{0}).ok());
  EXPECT_EQ(ledger.TotalsIfClosed(Ids(1)).repeated, 65534);
}

TEST(SampleLedger, SurvivesSerialisationInMidEpoch) {
  SampleLedger ledger(5);
  ASSERT_TRUE(ledger.Add(std::vector<int64_t>{0, 1, 1}).ok());
  ledger.CloseEpoch(Ids(5));
  ASSERT_TRUE(ledger.Add(std::vector<int64_t>{4, 4}).ok());
  const Result<SampleLedger> copy = SampleLedger::Deserialize(ledger.Serialize());
  ASSERT_TRUE(copy.ok()) << copy.error().ToString();
  EXPECT_EQ(*copy, ledger);
  EXPECT_EQ(copy->Serialize(), ledger.Serialize());
}

TEST(SampleLedger, RefusesBytesOfAnyOtherLength) {
  const std::string bytes = SampleLedger(5).Serialize();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(SampleLedger::Deserialize(bytes.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(SampleLedger::Deserialize(bytes + "x").ok());
  EXPECT_FALSE(SampleLedger::Deserialize(bytes + "xy").ok());
  std::string huge = bytes;
  huge[15] = '\x7f';  // the top byte of sample_count
  EXPECT_FALSE(SampleLedger::Deserialize(huge).ok());
}

}  // namespace
}  // namespace lockstep::runtime
