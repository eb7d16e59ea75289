#include "operator/reconcile/lifecycle/take_up.h"

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

// Somebody has replaced the status of a job by an empty one.

namespace lockstep::control {
namespace {

TEST(TakeUp, GangOfAJobWhoseStatusWasWipedGoesOnAsItsPodsTell) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.RunAll();
  world.Step();
  ASSERT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1-r1");
  const Epoch epoch = world.job.status.epoch;
  world.ReportAll();
  world.job.status = {};

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "");
  EXPECT_EQ(EventReasons(decision), "StatusLost GangRunning");
  EXPECT_NE(
      MessageOf(decision.status, ConditionType::kCreated).find("attempt 0 continues with 2 pods"),
      std::string::npos);
  EXPECT_EQ(TrueConditions(decision.status), "Created Scheduled Running");
  EXPECT_EQ(decision.status.epoch, epoch);
  EXPECT_EQ(decision.status.placement.at(1).incarnation, Incarnation(1));
  EXPECT_EQ(EventReasons(world.Step()), "");
}

TEST(TakeUp, PodsTellByWhichPodGroupTheyWerePlaced) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.native.is_followed = true;
  world.observed.native.served.version = kube::PodGroupVersion::kV1Beta1;
  world.Launch();
  world.ReportAll();
  world.Find("mnist-worker-0")->spec.pod_group = "mnist-uid-1-0";
  world.job.status = {};

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.pod_group, "mnist-uid-1-0");
  EXPECT_EQ(DescribeEffects(decision), "create podgroups/mnist-uid-1-0\n");
}

TEST(TakeUp, GangThatIsNotWholeAnyMoreStartsAnewAtAnAttemptThatWasNeverThere) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Vanish("mnist-worker-1");
  world.job.status = {};

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.attempt, Attempt(1));
  EXPECT_TRUE(decision.status.placement.empty());
  EXPECT_EQ(world.Pods(), "mnist-worker-0-");
  EXPECT_NE(
      MessageOf(decision.status, ConditionType::kCreated).find("the gang restarts as attempt 1"),
      std::string::npos);
}

TEST(TakeUp, JobThatHadSucceededHasSucceededAgain) {
  TestWorld world(MakeCommandJob(1));
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  world.Step();
  world.job.status = {};

  EXPECT_TRUE(IsTrue(world.Step().status, ConditionType::kSucceeded));
}

TEST(TakeUp, NewJobIsOnlyTakenUp) {
  TestWorld world(MakeTrainingJob(1));
  EXPECT_EQ(EventReasons(world.Step()), "JobCreated GangPlaced");
}

}  // namespace
}  // namespace lockstep::control
