#include "operator/reconcile/start/gang_pods.h"

#include <gtest/gtest.h>

#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

TEST(GangPods, LargePodsAreMadeByMoreDecisionsThanOne) {
  TrainingJob job = MakeCommandJob(6);
  job.spec.roles[0].pod.env["DATA"] = std::string(std::size_t{6} << 20U, 'x');
  TestWorld world(job);
  world.Step();
  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1 mnist-worker-2");
  const Decision next = world.Step();
  EXPECT_EQ(world.Pods(),
            "mnist-worker-0 mnist-worker-1 mnist-worker-2 mnist-worker-3 mnist-worker-4 "
            "mnist-worker-5");
  EXPECT_TRUE(TrueConditions(next.status).find("Failed") == std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
