#include "operator/api/queue/queue_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TrainingQueue MakeQueue(const std::string& name,
                        const std::string& parent,
                        const QueueAmounts& nominal = {}) {
  TrainingQueue queue;
  queue.name = name;
  queue.parent = parent;
  queue.nominal = nominal;
  return queue;
}

TEST(QueueFamily, EachQueueOfARingIsRefused) {
  const auto remarks = RemarksOn({MakeQueue("a", "b"),
                                  MakeQueue("b", "c"),
                                  MakeQueue("c", "a"),
                                  MakeQueue("beside", "a"),
                                  MakeQueue("far", "elsewhere")});
  ASSERT_EQ(remarks.size(), 3U);
  EXPECT_TRUE(remarks[0].is_refused);
  EXPECT_EQ(remarks[0].field, "spec.parent");
  EXPECT_EQ(remarks[0].message,
            "\"b\" found, but then the parents form a loop (a, b, c, a): the operator serves none "
            "of these queues; change one of the parents");
  EXPECT_EQ(remarks[2].queue, 2U);
}

TEST(QueueFamily, PromisesBeyondTheParentsAreToldAtTheParent) {
  const auto remarks = RemarksOn({MakeQueue("top", "", {{"gpu", 4}, {"rdma", 1}}),
                                  MakeQueue("one", "top", {{"gpu", 3}, {"cpu", 9000}}),
                                  MakeQueue("two", "top", {{"gpu", 2}, {"rdma", 1}})});
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_FALSE(remarks[0].is_refused);
  EXPECT_EQ(remarks[0].queue, 0U);
  EXPECT_EQ(remarks[0].field, "spec.nominal.gpu");
  EXPECT_EQ(remarks[0].message,
            "4 of gpu found, but the queues below this queue (one, two) have more in total; "
            "together they get at most what this queue may use");
}

TEST(QueueFamily, LimitOfLendingAboveTheNominalAmountIsNone) {
  TrainingQueue queue = MakeQueue("one", "", {{"cpu", 2000}});
  queue.lending_limit = {{"cpu", 3000}, {"memory", 7}};
  const auto remarks = RemarksOn({queue});
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_FALSE(remarks[0].is_refused);
  EXPECT_EQ(remarks[0].message,
            "3 of cpu found, which is more than the nominal 2, so the limit has no effect: other "
            "queues may use the whole nominal amount");
  queue.lending_limit = {{"cpu", 2000}};
  EXPECT_THAT(RemarksOn({queue}), IsEmpty());
}

TEST(QueueFamily, QueuesBelowAreThoseThatNameIt) {
  const std::vector<TrainingQueue> queues = {
      MakeQueue("top", ""), MakeQueue("b", "top"), MakeQueue("a", "top"), MakeQueue("c", "a")};
  EXPECT_THAT(QueuesBelow(queues, "top"), ElementsAre("b", "a"));
  EXPECT_THAT(QueuesBelow(queues, "b"), IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
