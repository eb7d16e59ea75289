#include "operator/allocator/usage_ledger.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

const JobId kFirstUser{"default", "first"};
const JobId kSecondUser{"default", "second"};

JobUsage OnePod(const std::string& node, int64_t gpus) {
  JobUsage usage;
  AddPod(node, {0, 0, gpus}, &usage.own);
  return usage;
}

class UsageLedgerTest : public testing::Test {
 protected:
  std::map<JobId, JobUsage> truth_;
  int count_ = 0;
  UsageLedger ledger_{[this](const JobId& job) {
    ++count_;
    return truth_[job];
  }};
};

TEST_F(UsageLedgerTest, SumFollowsWhatIsMarkedAndNothingElse) {
  truth_ = {{kFirstUser, OnePod("a", 2)}, {kSecondUser, OnePod("a", 3)}};
  ledger_.NoteChange(kFirstUser);
  ledger_.NoteChange(kSecondUser);
  EXPECT_EQ(ledger_.Sum()->at("a").resources.gpu_count, 5);

  truth_[kFirstUser] = OnePod("b", 1);
  EXPECT_EQ(ledger_.Sum()->at("a").resources.gpu_count, 5) << "not marked";
  ledger_.NoteChange(kFirstUser);
  EXPECT_EQ(ledger_.Sum()->at("a").resources.gpu_count, 3);
  EXPECT_EQ(ledger_.JobsOn("b"), std::vector<JobId>{kFirstUser});
  EXPECT_EQ(ledger_.OwnOf(kFirstUser)->at("b").resources.gpu_count, 1);
}

TEST_F(UsageLedgerTest, ManyChangesAreCountedOnceWhenSomebodyAsks) {
  for (int i = 0; i < 10; ++i) {
    ledger_.NoteChange(kFirstUser);
  }
  EXPECT_EQ(count_, 0);
  ledger_.Sum();
  ledger_.Sum();
  EXPECT_EQ(count_, 1);
}

TEST_F(UsageLedgerTest, JobThatHoldsNothingMoreLeavesNothingBehind) {
  truth_[kFirstUser] = OnePod("a", 2);
  AddPod("a", {0, 0, 1}, &truth_[kFirstUser].strangers);
  ledger_.NoteChange(kFirstUser);
  EXPECT_EQ(ledger_.Sum()->at("a").pod_count, 2);
  EXPECT_EQ(ledger_.ByStrangers().at("a").pod_count, 1);

  truth_[kFirstUser] = JobUsage();
  ledger_.NoteChange(kFirstUser);
  EXPECT_TRUE(ledger_.Sum()->empty());
  EXPECT_TRUE(ledger_.ByStrangers().empty());
  EXPECT_EQ(ledger_.OwnOf(kFirstUser), nullptr);
}

}  // namespace
}  // namespace lockstep::control
