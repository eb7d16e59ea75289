#include "operator/resources/node_usage.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(NodeUsage, KnowsOnlyNodesThatAreUsed) {
  ResourceVector request{500, 1024, 1, {}};
  request.Set("rdma/hca", 2);
  UsageByNode usage;
  AddPod("a", request, &usage);
  AddPod("a", request, &usage);
  AddPod("b", {}, &usage);
  EXPECT_EQ(usage.at("a"), (NodeUsage{Times(request, 2), 2}));
  EXPECT_EQ(usage.at("b").pod_count, 1) << "a pod that asks for nothing is a pod";

  UsageByNode twice = usage;
  AddUsage(usage, &twice);
  EXPECT_EQ(twice.at("a").resources.AmountOf("rdma/hca"), 8);
  SubtractUsage(usage, &twice);
  EXPECT_EQ(twice, usage);
  RemovePod("b", {}, &usage);
  RemovePod("a", request, &usage);
  RemovePod("a", request, &usage);
  EXPECT_TRUE(usage.empty());
}

TEST(NodeUsage, APodThatAsksForTooMuchLeavesNothingBehind) {
  UsageByNode usage;
  AddPod("a", {100, 10, 1, {}}, &usage);
  const UsageByNode before = usage;
  const ResourceVector most{std::numeric_limits<int64_t>::max(), 0, 0, {}};
  AddPod("a", most, &usage);
  AddPod("a", most, &usage);
  RemovePod("a", most, &usage);
  RemovePod("a", most, &usage);
  EXPECT_EQ(usage, before);
}

}  // namespace
}  // namespace lockstep::control
