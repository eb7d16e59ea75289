#include "operator/resources/resource_vector.h"

#include <limits>

#include <gtest/gtest.h>

#include "common/base/quantity.h"

namespace lockstep::control {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

ResourceVector With(const std::vector<NamedAmount>& amounts) {
  ResourceVector resources;
  for (const NamedAmount& amount : amounts) {
    resources.Set(amount.name, amount.amount);
  }
  return resources;
}

TEST(ResourceVector, IsTheSameInWhateverOrderItWasFilled) {
  const ResourceVector one = With({{"rdma/hca", 1}, {"cpu", 500}, {"amd.com/gpu", 2}});
  EXPECT_EQ(one, With({{"cpu", 500}, {"amd.com/gpu", 2}, {"rdma/hca", 1}, {"hugepages-2Mi", 0}}));
  EXPECT_EQ(one.AmountOf("amd.com/gpu"), 2);
  EXPECT_EQ(one.AmountOf("memory"), 0);
  ResourceVector emptied = one;
  for (const NamedAmount& amount : one.All()) {
    emptied.Set(amount.name, 0);
  }
  EXPECT_EQ(emptied, ResourceVector{});
}

TEST(ResourceVector, NamesWhatIsScarcestFirst) {
  std::string names;
  for (const NamedAmount& amount : With({{"ephemeral-storage", 5},
                                         {"memory", 4},
                                         {"cpu", 3},
                                         {"rdma/hca", 2},
                                         {"nvidia.com/gpu", 1}})
                                       .All()) {
    names += amount.name + "=" + QuantityText(amount) + " ";
  }
  EXPECT_EQ(names, "nvidia.com/gpu=1 rdma/hca=2 memory=4 cpu=3m ephemeral-storage=5 ");
}

TEST(ResourceVector, AmountsAreWrittenAsKubernetesWritesThem) {
  const std::pair<NamedAmount, const char*> cases[] = {
      {{"cpu", 1500}, "1500m"},
      {{"cpu", 16'000}, "16"},
      {{"cpu", 0}, "0"},
      {{"memory", int64_t{64} << 30}, "64Gi"},
      {{"memory", int64_t{1536} << 20}, "1536Mi"},
      {{"memory", 1000}, "1000"},
      {{"memory", 0}, "0"},
      {{"ephemeral-storage", int64_t{1} << 62}, "4Ei"},
      {{"hugepages-2Mi", 4 << 20}, "4Mi"},
      {{"nvidia.com/gpu", 1024}, "1024"}};
  for (const auto& [amount, expected] : cases) {
    const std::string text = QuantityText(amount);
    EXPECT_EQ(text, expected);
    EXPECT_EQ(
        ParseQuantity(text, amount.name == "cpu" ? QuantityUnit::kThousandths : QuantityUnit::kOnes)
            .value(),
        amount.amount);
  }
}

TEST(ResourceVector, AddsNameByName) {
  const ResourceVector a = With({{"cpu", 1}, {"rdma/hca", 1}, {"x/a", 4}});
  const ResourceVector b = With({{"memory", 2}, {"rdma/hca", 2}, {"x/b", 5}});
  const ResourceVector sum =
      With({{"cpu", 1}, {"memory", 2}, {"rdma/hca", 3}, {"x/a", 4}, {"x/b", 5}});
  EXPECT_EQ(Sum(a, b), sum);
  EXPECT_EQ(Sum(sum, Times(b, -1)), a) << "nothing stays of what was taken away";
  EXPECT_EQ(Larger(a, b),
            With({{"cpu", 1}, {"memory", 2}, {"rdma/hca", 2}, {"x/a", 4}, {"x/b", 5}}));
  EXPECT_EQ(Left(a, b), With({{"cpu", 1}, {"x/a", 4}})) << "never less than nothing";
}

TEST(ResourceVector, SumsStayAtTheLargestNumber) {
  EXPECT_EQ(Sum({kMost, 1, 1, {}}, {1, kMost, 1, {}}), (ResourceVector{kMost, kMost, 2, {}}));
  EXPECT_EQ(Times({kMost / 2, 0, 0, {}}, 3).cpu_milli, kMost);
}

TEST(ResourceVector, CountsByWhateverIsTightest) {
  const ResourceVector free = With({{"cpu", 8000}, {"nvidia.com/gpu", 4}, {"rdma/hca", 3}});
  EXPECT_EQ(CountThatFits(free, With({{"cpu", 1000}}), 100), 8);
  EXPECT_EQ(CountThatFits(free, With({{"cpu", 1000}, {"rdma/hca", 2}}), 100), 1);
  EXPECT_EQ(CountThatFits(free, With({{"amd.com/gpu", 1}}), 100), 0) << "nobody offers it";
  EXPECT_EQ(CountThatFits(free, {}, 100), 100);
}

TEST(ResourceVector, PortsAreTakenAndNeverOffered) {
  ResourceVector asked{1000, 0, 0, {}};
  asked.Set(HostPortResource(80), 1);
  asked.Set(HostPortResource(443), 1);
  EXPECT_EQ(asked.AmountOf("hostPort:443"), 1);
  EXPECT_EQ(asked.All(), (std::vector<NamedAmount>{{"cpu", 1000}})) << "a port is no amount";
  const ResourceVector node{8000, 0, 0, {}};
  EXPECT_EQ(CountThatFits(node, asked, 8), 1);
  const ResourceVector left = Left(node, asked);
  EXPECT_EQ(left.cpu_milli, 7000);
  EXPECT_EQ(CountThatFits(left, asked, 8), 0);
  EXPECT_EQ(FreeAmountOf(left, "hostPort:80"), 0);
  EXPECT_EQ(FreeAmountOf(left, "hostPort:81"), 1);
  EXPECT_EQ(GivenBack(left, asked), node);
  EXPECT_EQ(CountThatFits(node, Times(asked, 2), 1), 0) << "two pods with one port, on one node";
  asked.Set(HostPortResource(80), 0);
  EXPECT_EQ(asked.host_ports, (std::vector<PortCount>{{443, 1}}));
}

}  // namespace
}  // namespace lockstep::control
