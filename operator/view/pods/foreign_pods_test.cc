#include "operator/view/pods/foreign_pods.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

kube::Item<PodUse> Pod(const std::string& uid, const std::string& node, int64_t gpus) {
  return {{"default", "pod-" + uid},
          uid,
          "1",
          std::make_shared<const PodUse>(PodUse{node, {1000, 1 << 20, gpus}, false})};
}

kube::Item<PodUse> Ended(kube::Item<PodUse> item) {
  PodUse use = *item.object;
  use.has_ended = true;
  item.object = std::make_shared<const PodUse>(use);
  return item;
}

int64_t Gpus(const ForeignPods& pods, const std::string& node) {
  const auto found = pods.room()->find(node);
  return found == pods.room()->end() ? -1 : found->second.resources.gpu_count;
}

TEST(ForeignPods, SumFollowsEveryUpdate) {
  ForeignPods pods;
  pods.Apply(kube::Replaced<PodUse>{{Pod("1", "a", 2), Pod("2", "a", 3), Pod("3", "b", 1)}});
  EXPECT_EQ(Gpus(pods, "a"), 5);
  EXPECT_EQ(pods.room()->at("a").pod_count, 2);

  pods.Apply(kube::Upserted<PodUse>{Pod("2", "a", 3)});  // again
  pods.Apply(kube::Upserted<PodUse>{Pod("4", "b", 4)});
  EXPECT_EQ(Gpus(pods, "a"), 5);
  EXPECT_EQ(Gpus(pods, "b"), 5);

  pods.Apply(kube::Deleted<PodUse>{Pod("1", "a", 2)});
  EXPECT_EQ(Gpus(pods, "a"), 3);
  EXPECT_EQ(pods.size(), 3U);
}

TEST(ForeignPods, PodThatHasEndedOrIsNotBoundHoldsNothing) {
  ForeignPods pods;
  pods.Apply(kube::Upserted<PodUse>{Pod("1", "", 2)});
  pods.Apply(kube::Upserted<PodUse>{Ended(Pod("2", "a", 2))});
  EXPECT_TRUE(pods.room()->empty());

  EXPECT_FALSE(pods.Apply(kube::Upserted<PodUse>{Pod("1", "a", 2)}));
  EXPECT_EQ(Gpus(pods, "a"), 2);
  EXPECT_TRUE(pods.Apply(kube::Upserted<PodUse>{Ended(Pod("1", "a", 2))}));
  EXPECT_TRUE(pods.room()->empty());
}

TEST(ForeignPods, ListForgetsWhatItDoesNotName) {
  ForeignPods pods;
  EXPECT_FALSE(pods.Apply(kube::Replaced<PodUse>{{Pod("1", "a", 2)}}));
  EXPECT_TRUE(pods.Apply(kube::Replaced<PodUse>{{Pod("2", "b", 1)}}));

  EXPECT_EQ(Gpus(pods, "a"), -1);
  EXPECT_EQ(Gpus(pods, "b"), 1);
}

TEST(ForeignPods, DecodesWhatAPodHolds) {
  const auto item = DecodePodUse(R"({
    "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
    "spec": {"nodeName": "a", "containers": [
      {"name": "c", "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "2"}}}]},
    "status": {"phase": "Running"}})");

  ASSERT_TRUE(item.ok()) << item.error().ToString();
  EXPECT_EQ(item->object->node, "a");
  EXPECT_EQ(item->object->requests, (ResourceVector{500, 0, 2}));
  EXPECT_FALSE(item->object->has_ended);
}

}  // namespace
}  // namespace lockstep::control
