#include "operator/scheduler/queue/queue_tree.h"

#include <limits>

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"

namespace lockstep::control {
namespace {

ResourceVector Gpus(int64_t count) {
  return {0, 0, count, {}};
}

// What the tree says to so many more GPUs in the queue; empty: they may be held.
std::string Asked(const QueueTree& tree, const std::string& queue, int64_t gpus) {
  const auto shortfall = tree.Check(*tree.Find(queue), Gpus(gpus));
  return shortfall ? shortfall->text : "";
}

void Take(QueueTree* tree, const std::string& queue, int64_t gpus) {
  tree->Charge({*tree->Find(queue), "team"}, Gpus(gpus));
}

TEST(QueueTree, DefaultQueueIsThereAndHasNoQuota) {
  const QueueTree tree;
  ASSERT_TRUE(tree.Find("").has_value());
  EXPECT_EQ(tree.Find(""), tree.Find("default"));
  EXPECT_EQ(tree.Find("other"), std::nullopt);
  EXPECT_EQ(Asked(tree, "", 1'000'000), "");
}

TEST(QueueTree, QueueBorrowsWhatOthersDoNotUse) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set({{.name = "a", .nominal = OfGpus(16)}, {.name = "b", .nominal = OfGpus(8)}}).ok());
  Take(&tree, "a", 12);
  EXPECT_EQ(Asked(tree, "a", 12), "");
  EXPECT_EQ(Asked(tree, "a", 13),
            "queue a would be 9 GPUs over its nominal 16, and 8 GPUs are left to borrow");
  Take(&tree, "b", 8);
  EXPECT_EQ(Asked(tree, "a", 4), "");
  EXPECT_EQ(Asked(tree, "a", 8),
            "queue a would be 4 GPUs over its nominal 16, and nothing is left to borrow");
}

TEST(QueueTree, CoresAreNamedInOneUnit) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set({{.name = "a", .nominal = {{"cpu", 2000}}, .borrowing_limit = {{"cpu", 0}}}}).ok());
  const auto shortfall = tree.Check(*tree.Find("a"), {2001, 0, 0, {}});
  ASSERT_TRUE(shortfall.has_value());
  EXPECT_EQ(shortfall->text, "queue a would be 0.001 CPU over its nominal 2, and may borrow none");
}

TEST(QueueTree, BorrowingAndLendingHaveLimits) {
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "a", .nominal = OfGpus(8), .borrowing_limit = OfGpus(2)},
                        {.name = "b", .nominal = OfGpus(8), .lending_limit = OfGpus(3)},
                        {.name = "c", .nominal = OfGpus(0)}})
                  .ok());
  EXPECT_EQ(Asked(tree, "a", 10), "");
  EXPECT_EQ(Asked(tree, "a", 11),
            "queue a would be 3 GPUs over its nominal 8, and may borrow 2 GPUs");
  EXPECT_EQ(Asked(tree, "c", 11), "") << "8 of a, 3 of b";
  EXPECT_EQ(Asked(tree, "c", 12),
            "queue c would be 12 GPUs over its nominal 0, and 11 GPUs are left to borrow");
  Take(&tree, "b", 6);
  EXPECT_EQ(Asked(tree, "c", 10), "") << "b keeps nothing beside its 6, and 2 are left";
  EXPECT_EQ(Asked(tree, "c", 11),
            "queue c would be 11 GPUs over its nominal 0, and 10 GPUs are left to borrow");
}

// The queue above may borrow without a limit, and there is nothing to be had.
TEST(QueueTree, WhatIsNotLentIsKeptFromTheQueuesAboveAsWell) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set(
              {{.name = "org", .nominal = OfGpus(32)},
               {.name = "vision", .parent = "org", .nominal = OfGpus(12)},
               {.name = "speech",
                .parent = "org",
                .nominal = OfGpus(12),
                .lending_limit = OfGpus(4)},
               {.name = "batch", .parent = "org", .nominal = OfGpus(8), .lending_limit = OfGpus(0)},
               {.name = "other", .nominal = OfGpus(10)}})
          .ok());
  EXPECT_EQ(Asked(tree, "vision", 26), "") << "12, 4 of speech and the 10 of other";
  EXPECT_EQ(Asked(tree, "vision", 27),
            "queue vision would be 15 GPUs over its nominal 12, and 14 GPUs are left to borrow");
  EXPECT_EQ(tree.WhyNeverHeld(*tree.Find("vision"), Gpus(26)), std::nullopt);
  EXPECT_EQ(tree.WhyNeverHeld(*tree.Find("vision"), Gpus(27)),
            "needs 27 GPUs, but queue vision can never use more than 26 (nominal 12, other queues "
            "lend 14 GPUs)");
  EXPECT_EQ(Asked(tree, "other", 26), "") << "16 of org's are kept below it";
  EXPECT_EQ(Asked(tree, "other", 27),
            "queue other would be 17 GPUs over its nominal 10, and 16 GPUs are left to borrow");
  Take(&tree, "other", 10);
  EXPECT_EQ(Asked(tree, "vision", 16), "");
  EXPECT_EQ(Asked(tree, "vision", 17),
            "queue vision would be 5 GPUs over its nominal 12, and 4 GPUs are left to borrow");
  Take(&tree, "vision", 16);
  EXPECT_EQ(Asked(tree, "batch", 8), "");
  Take(&tree, "batch", 8);
  EXPECT_EQ(Asked(tree, "speech", 8), "");
  EXPECT_NE(Asked(tree, "speech", 9), "") << "4 are lent";
}

// Who promises more than it has keeps no more than that for those below it.
TEST(QueueTree, MoreThanAQueueHasIsNotKept) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set({{.name = "dept", .nominal = OfGpus(10)},
                {.name = "a", .parent = "dept", .nominal = OfGpus(10), .lending_limit = OfGpus(0)},
                {.name = "b", .parent = "dept", .nominal = OfGpus(10), .lending_limit = OfGpus(0)},
                {.name = "other", .nominal = OfGpus(10)}})
          .ok());
  Take(&tree, "other", 10);
  EXPECT_EQ(Asked(tree, "a", 10), "");
  EXPECT_NE(Asked(tree, "other", 1), "");
}

TEST(QueueTree, WhatAQueueCouldNeverHoldIsSaidWhateverIsHeldNow) {
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "a", .nominal = OfGpus(8), .borrowing_limit = OfGpus(2)},
                        {.name = "b", .nominal = OfGpus(8), .lending_limit = OfGpus(3)},
                        {.name = "dept", .nominal = OfGpus(4), .borrowing_limit = OfGpus(0)},
                        {.name = "small", .parent = "dept", .nominal = OfGpus(2)},
                        {.name = "large", .parent = "dept", .nominal = OfGpus(6)}})
                  .ok());
  const auto never = [&](const std::string& queue, int64_t gpus) {
    return tree.WhyNeverHeld(*tree.Find(queue), Gpus(gpus)).value_or("");
  };
  for (const int64_t held : {0, 3}) {
    Take(&tree, "b", held);
    EXPECT_EQ(never("a", 10), "");
    EXPECT_EQ(
        never("a", 11),
        "needs 11 GPUs, but queue a can never use more than 10 (nominal 8, may borrow 2 GPUs)");
    EXPECT_EQ(never("b", 20), "") << "8 of a and 4 of dept";
    EXPECT_EQ(never("b", 21),
              "needs 21 GPUs, but queue b can never use more than 20 (nominal 8, other queues lend "
              "12 GPUs)");
    EXPECT_EQ(never("small", 4), "");
    EXPECT_EQ(never("small", 5),
              "needs 5 GPUs, but queue small can never use more than 4 (nominal 2, other queues "
              "lend 2 GPUs)");
    EXPECT_EQ(never("large", 5),
              "needs 5 GPUs, but queue large can never use more than 4 (nominal 6, but its "
              "parent queue dept allows it less)");
  }
  EXPECT_EQ(never("default", 21), "") << "it takes what is left";
  const QueueTree open;
  EXPECT_EQ(open.WhyNeverHeld(*open.Find(""), Gpus(1'000'000)), std::nullopt);
}

TEST(QueueTree, WhatOthersBorrowedIsSaidToWhomItBelongs) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set({{.name = "a", .nominal = OfGpus(8)}, {.name = "b", .nominal = OfGpus(8)}}).ok());
  Take(&tree, "b", 13);
  const auto shortfall = tree.Check(*tree.Find("a"), Gpus(8));
  ASSERT_TRUE(shortfall.has_value());
  EXPECT_TRUE(shortfall->may_be_reclaimed);
  EXPECT_EQ(shortfall->text,
            "queue a would be within its nominal 8 GPUs, but 5 GPUs are lent to queue b; to let "
            "queue a take back what it lends, set its preemption.acrossQueues: Borrowed");
  Take(&tree, "a", 1);
  EXPECT_EQ(Asked(tree, "a", 4),
            "queue a would be within its nominal 8 GPUs, but 5 GPUs are lent to queue b; to let "
            "queue a take back what it lends, set its preemption.acrossQueues: Borrowed");
  EXPECT_EQ(Asked(tree, "b", 3),
            "queue b would be 8 GPUs over its nominal 8: it borrows 5 GPUs, and 2 GPUs are left to "
            "borrow");
  EXPECT_EQ(Asked(tree, "a", 9),
            "queue a would be 2 GPUs over its nominal 8, and nothing is left to borrow")
      << "not even what is its own";
}

TEST(QueueTree, UpToThreeResourcesThatAreShortAreNamedDevicesFirst) {
  QueueTree tree;
  const int64_t gib = int64_t{1} << 30;
  ASSERT_TRUE(
      tree.Set({{.name = "dept", .nominal = {{"cpu", 4000}}, .borrowing_limit = {{"cpu", 0}}},
                {.name = "a",
                 .parent = "dept",
                 .nominal = {{"memory", 8 * gib}, {"nvidia.com/gpu", 4}, {"rdma/hca", 1}},
                 .borrowing_limit = {{"memory", 0}, {"nvidia.com/gpu", 1}}}})
          .ok());
  const QueueIndex a = *tree.Find("a");
  ResourceVector wanted{6000, 4 * gib, 6, {}};
  EXPECT_EQ(tree.Check(a, wanted)->text,
            "queue a would be 2 GPUs over its nominal 4, and may borrow 1 GPU; 6 CPU over its "
            "nominal 0, and 4 CPU are left to borrow");
  wanted.memory_bytes = 9 * gib;
  wanted.cpu_milli = 0;
  EXPECT_EQ(tree.Check(a, wanted)->text,
            "queue a would be 2 GPUs over its nominal 4, and may borrow 1 GPU; 1 GiB memory over "
            "its nominal 8 GiB, and may borrow none");
  wanted.cpu_milli = 6000;
  wanted.Set("rdma/hca", 2);
  const std::string text = tree.Check(a, wanted)->text;
  EXPECT_NE(text.find("2 GPUs over"), std::string::npos) << text;
  EXPECT_NE(text.find("queue dept would be 1 rdma/hca over"), std::string::npos) << text;
  EXPECT_NE(text.find("CPU over"), std::string::npos) << text;
  EXPECT_EQ(text.find("memory"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("; 1 more resource is short")) << text;
  EXPECT_FALSE(tree.Allows(a, wanted));
  EXPECT_TRUE(tree.Allows(a, {4000, 8 * gib, 4, {}}));
}

TEST(QueueTree, MorePromisedBelowThanAQueueHasIsFound) {
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "dept", .nominal = OfGpus(16)},
                        {.name = "x", .parent = "dept", .nominal = OfGpus(12)},
                        {.name = "y", .parent = "dept"},
                        {.name = "z", .parent = "y", .nominal = OfGpus(8)}})
                  .ok());
  EXPECT_EQ(tree.OverpromisesOf(*tree.Find("dept")),
            (std::vector<Overpromise>{{"nvidia.com/gpu", 20, 16}}));
  EXPECT_TRUE(tree.OverpromisesOf(*tree.Find("y")).empty()) << "it has what those below it have";
  EXPECT_EQ(tree.NominalOf(*tree.Find("y")), OfGpus(8));
  EXPECT_TRUE(tree.NominalOf(*tree.Find("default")).empty());
}

TEST(QueueTree, QueuesBelowOneShareItsNominalFirst) {
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "dept", .nominal = OfGpus(16), .borrowing_limit = OfGpus(0)},
                        {.name = "x", .parent = "dept", .nominal = OfGpus(4)},
                        {.name = "y", .parent = "dept"},
                        {.name = "other", .nominal = OfGpus(16)}})
                  .ok());
  Take(&tree, "x", 10);
  EXPECT_EQ(Asked(tree, "y", 6), "") << "it has no nominal amount, and borrows of its department";
  EXPECT_EQ(Asked(tree, "y", 7),
            "queue y would be 7 GPUs over its nominal 0, and 6 GPUs are left to borrow");
  Take(&tree, "y", 6);
  EXPECT_EQ(Asked(tree, "other", 16), "");
  EXPECT_EQ(tree.HeldBy(*tree.Find("dept")).gpu_count, 16);
  tree.Refund({*tree.Find("x"), "team"}, Gpus(10));
  EXPECT_EQ(tree.HeldBy(*tree.Find("dept")).gpu_count, 6);
}

TEST(QueueTree, WhoIsWithinItsNominalMayTakeBackFromWhoIsOver) {
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "a", .nominal = OfGpus(8)},
                        {.name = "b", .nominal = OfGpus(8)},
                        {.name = "b1", .parent = "b", .nominal = OfGpus(4)},
                        {.name = "b2", .parent = "b", .nominal = OfGpus(4)}})
                  .ok());
  const auto may = [&](const std::string& queue, const std::string& victim, int64_t gpus) {
    return tree.MayReclaim(*tree.Find(queue), *tree.Find(victim), Gpus(gpus));
  };
  Take(&tree, "b1", 6);
  EXPECT_FALSE(may("a", "b1", 4)) << "b as a whole is within its nominal amount";
  EXPECT_TRUE(may("b2", "b1", 4)) << "b1 is over its own";
  EXPECT_FALSE(may("b2", "b1", 5)) << "b2 would be over its own";
  Take(&tree, "b2", 6);
  EXPECT_TRUE(may("a", "b1", 8));
  EXPECT_FALSE(may("a", "b1", 9));
  EXPECT_FALSE(may("b1", "b1", 1)) << "nobody reclaims from itself";
  Take(&tree, "default", 3);
  Take(&tree, "b1", 3);
  tree.Refund({*tree.Find("b2"), "team"}, Gpus(3));
  EXPECT_FALSE(may("a", "b2", 8)) << "b is over, by what b1 has borrowed";
  EXPECT_EQ(tree.ReclaimableMax(*tree.Find("a"), *tree.Find("b2"), "nvidia.com/gpu"), 0);
  Take(&tree, "b2", 3);
  tree.Refund({*tree.Find("b1"), "team"}, Gpus(3));
  EXPECT_TRUE(may("a", "default", 8)) << "who has no quota holds what is left";
  EXPECT_FALSE(may("default", "b1", 1)) << "and has nothing to take back";
  EXPECT_EQ(tree.ReclaimableMax(*tree.Find("a"), *tree.Find("b1"), "nvidia.com/gpu"), 6)
      << "4 over, and gangs go whole";
}

TEST(QueueTree, WhatIsOnlyPromisedIsNotTakenBack) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set({{.name = "a", .nominal = OfGpus(4)}, {.name = "b", .nominal = OfGpus(4)}}).ok());
  Take(&tree, "b", 4);
  Take(&tree, "b", 2);
  const QueueIndex a = *tree.Find("a");
  const QueueIndex b = *tree.Find("b");
  EXPECT_TRUE(tree.MayReclaim(a, b, Gpus(2)));
  EXPECT_EQ(tree.ReclaimableMax(a, b, "nvidia.com/gpu"), 5);
  tree.Promise(b, Gpus(2));
  EXPECT_FALSE(tree.MayReclaim(a, b, Gpus(2))) << "the rest is its own";
  EXPECT_EQ(tree.ReclaimableMax(a, b, "nvidia.com/gpu"), 0);
  EXPECT_TRUE(tree.Check(a, Gpus(3)).has_value()) << "it is held all the same";
  tree.EndPromise(b, Gpus(2));
  EXPECT_TRUE(tree.MayReclaim(a, b, Gpus(2)));
}

TEST(QueueTree, MostThatCanBeTakenBackIsExactForGangsOfOne) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set({{.name = "a", .nominal = OfGpus(80)}, {.name = "b", .nominal = OfGpus(721)}}).ok());
  for (int i = 0; i < 800; ++i) {
    Take(&tree, "b", 1);
  }
  EXPECT_EQ(tree.ReclaimableMax(*tree.Find("a"), *tree.Find("b"), "nvidia.com/gpu"), 79);
}

TEST(QueueTree, ShareIsThatOfTheDominantResourceByWeight) {
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "a", .weight = 2}, {.name = "b"}}).ok());
  const ResourceVector all{1000, 0, 100, {}};
  tree.Charge({*tree.Find("a"), "x"}, {500, 0, 10, {}});
  tree.Charge({*tree.Find("b"), "x"}, {100, 0, 30, {}});
  EXPECT_EQ(tree.ShareOf(*tree.Find("a"), all, {}).held, 250'000'000) << "half of all cores, by 2";
  EXPECT_EQ(tree.ShareOf(*tree.Find("b"), all, {}).held, 300'000'000) << "30 of 100 GPUs";
  EXPECT_LT(tree.ShareOf(*tree.Find("a"), all, {}), tree.ShareOf(*tree.Find("b"), all, {}));
  EXPECT_LT(tree.ShareOfSpace(*tree.Find("b"), "y", all),
            tree.ShareOfSpace(*tree.Find("b"), "x", all));
}

TEST(QueueTree, WhatIsOverNominalCountsBeforeWhatIsHeld) {
  QueueTree tree;
  ASSERT_TRUE(
      tree.Set({{.name = "a", .nominal = OfGpus(60)}, {.name = "b", .nominal = OfGpus(10)}}).ok());
  Take(&tree, "a", 50);
  Take(&tree, "b", 20);
  const ResourceVector all = Gpus(100);
  EXPECT_LT(tree.ShareOf(*tree.Find("a"), all, {}), tree.ShareOf(*tree.Find("b"), all, {}));
  EXPECT_LT(tree.ShareOf(*tree.Find("b"), all, {}), tree.ShareOf(*tree.Find("a"), all, Gpus(21)))
      << "what it would be over counts as well";
}

TEST(QueueTree, SumsOfAmountsThatNobodyHasStayAtTheLargestNumber) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "a", .nominal = OfGpus(8), .lending_limit = OfGpus(1)},
                        {.name = "b", .nominal = OfGpus(kMost)},
                        {.name = "c", .nominal = OfGpus(kMost)}})
                  .ok());
  Take(&tree, "a", 4);
  EXPECT_FALSE(tree.Allows(*tree.Find("a"), Gpus(kMost)));
  EXPECT_NE(Asked(tree, "a", kMost), "");
  EXPECT_TRUE(tree.WhyNeverHeld(*tree.Find("a"), Gpus(kMost)).has_value());
  EXPECT_FALSE(tree.MayReclaim(*tree.Find("a"), *tree.Find("b"), Gpus(kMost)));
  Take(&tree, "b", kMost);
  Take(&tree, "b", kMost);
  tree.Refund({*tree.Find("b"), "team"}, Gpus(kMost));
  tree.Refund({*tree.Find("b"), "team"}, Gpus(kMost));
  EXPECT_EQ(tree.HeldBy(*tree.Find("b")), ResourceVector{}) << "what is given back was charged";
}

TEST(QueueTree, MistakesNameQueueAndFieldAndChangeNothing) {
  QueueTree tree;
  ASSERT_TRUE(tree.Set({{.name = "kept"}}).ok());
  const auto problem = [&](const std::vector<QueueSpec>& specs) {
    const Status status = tree.Set(specs);
    return status.ok() ? "" : status.error().message();
  };
  EXPECT_EQ(problem({{.name = ""}}), "queue : name is empty");
  EXPECT_EQ(problem({{.name = "a"}, {.name = "a"}}), "queue a: name exists twice");
  EXPECT_EQ(problem({{.name = "a", .parent = "b"}}), "queue a: parent b does not exist");
  EXPECT_EQ(problem({{.name = "a", .parent = "b"}, {.name = "b", .parent = "a"}}),
            "queue a: parent b is below the queue itself");
  EXPECT_EQ(problem({{.name = "a", .lending_limit = OfGpus(-1)}}),
            "queue a: lendingLimit of nvidia.com/gpu is below 0");
  EXPECT_EQ(problem({{.name = "a", .weight = 0}}), "queue a: weight is 0, expected at least 1");
  EXPECT_TRUE(tree.Find("kept").has_value());
}

}  // namespace
}  // namespace lockstep::control
