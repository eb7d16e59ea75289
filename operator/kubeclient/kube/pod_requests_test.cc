#include "operator/kubeclient/kube/pod_requests.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

ResourceVector Cpu(int64_t milli) {
  return {milli, 0, 0};
}

TEST(PodRequests, AreEnoughForEveryMomentOfThePod) {
  PodRequests plain;
  plain.AddContainer({100, 10, 1});
  plain.AddContainer({200, 20, 2});
  EXPECT_EQ(plain.Sum(), (ResourceVector{300, 30, 3}));

  PodRequests with_init = plain;
  with_init.AddInitContainer({1000, 5, 0}, false);
  EXPECT_EQ(with_init.Sum(), (ResourceVector{1000, 30, 3})) << "each resource by itself";

  PodRequests with_sidecar = plain;
  with_sidecar.AddInitContainer(Cpu(290), false);
  with_sidecar.AddInitContainer(Cpu(50), true);
  EXPECT_EQ(with_sidecar.Sum().cpu_milli, 350) << "sidecars stay beside the containers";
  with_sidecar.AddInitContainer(Cpu(320), false);
  EXPECT_EQ(with_sidecar.Sum().cpu_milli, 370) << "a later init container runs beside the sidecar";
  with_sidecar.AddOverhead(Cpu(7));
  EXPECT_EQ(with_sidecar.Sum().cpu_milli, 377);
}

TEST(PodRequests, WhatThePodAsksForAsAWholeCountsInstead) {
  PodRequests requests;
  requests.AddContainer({100, 10, 1});
  requests.AddOverhead(Cpu(5));
  requests.SetPodLevel(Cpu(400));
  EXPECT_EQ(requests.Sum(), (ResourceVector{405, 10, 1}));
}

TEST(PodRequests, StayAtTheLargestNumber) {
  PodRequests requests;
  requests.AddContainer(Cpu(std::numeric_limits<int64_t>::max()));
  requests.AddContainer(Cpu(1));
  requests.AddOverhead(Cpu(1));
  EXPECT_EQ(requests.Sum().cpu_milli, std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace lockstep::control::kube
