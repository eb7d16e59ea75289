#include "operator/view/stored_queue.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

StoredQueue Queue(const std::string& name, const std::string& parent, const std::string& problem) {
  StoredQueue stored;
  stored.queue.name = name;
  stored.queue.parent = parent;
  stored.problem = problem;
  return stored;
}

TEST(StoredQueue, IsReadAsTheServerKeepsIt) {
  const auto item = DecodeStoredQueue(
      R"({"metadata": {"name": "vision", "uid": "u", "resourceVersion": "7"},
          "spec": {"nominal": {"nvidia.com/gpu": 16}}})");

  ASSERT_TRUE(item.ok());
  EXPECT_EQ(item->key, (kube::ObjectKey{"", "vision"}));
  EXPECT_EQ(item->resource_version, "7");
  EXPECT_EQ(item->object->problem, "");
  EXPECT_EQ(item->object->queue.nominal.at("nvidia.com/gpu"), 16);
}

TEST(StoredQueue, ThoseThatHangFromNothingAreLeftOutAndTheOthersServed) {
  const std::vector<QueueSpec> specs = UsableQueues({Queue("top", "", ""),
                                                     Queue("below", "top", ""),
                                                     Queue("orphan", "gone", ""),
                                                     Queue("of-orphan", "orphan", ""),
                                                     Queue("unread", "", "spec.weight is 0"),
                                                     Queue("snake", "tail", ""),
                                                     Queue("tail", "snake", "")});

  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[0].name, "below");
  EXPECT_EQ(specs[1].name, "top");
  EXPECT_TRUE(QueueTree().Set(specs).ok());
}

}  // namespace
}  // namespace lockstep::control
