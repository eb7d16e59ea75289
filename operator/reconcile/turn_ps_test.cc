#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

TrainingJob OnPs(int count) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.strategy = Strategy::kParameterServer;
  RoleSpec ps = job.spec.roles[0];
  ps.name = Role::kPs;
  ps.replicas = count;
  job.spec.roles.push_back(ps);
  return job;
}

// Nobody waits for a worker that is gone, so its ps have to know.
TEST(DecidePs, PsHearOfAWorkerThatIsGone) {
  TestWorld world(OnPs(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);

  EXPECT_EQ(DescribeEffects(world.Step()),
            "create pod mnist-worker-1-r1 on node node-a\n"
            "tell pod mnist-worker-0: peer_gone rank 1, epoch 1\n"
            "tell pod mnist-ps-0: peer_gone rank 1, epoch 1\n"
            "tell pod mnist-ps-1: peer_gone rank 1, epoch 1\n");
}

TEST(DecidePs, LostPsIsReplacedAloneAndItsSuccessorKnowsWhoStandsForEach) {
  TestWorld world(OnPs(2));
  world.Launch();
  world.Exit("mnist-ps-1", 137);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "create pod mnist-ps-1-r1 on node node-a\n");
  EXPECT_EQ(decision.status.epoch, Epoch(0));
  EXPECT_EQ(decision.status.attempt, Attempt(0));
  const auto& environment = std::get<CreatePod>(decision.effects[0]).pod.spec.container.env;
  EXPECT_EQ(environment.at("LOCKSTEP_PS_INCARNATIONS"), "0,1");
}

// A newcomer whose filler is gone ends so, and the gang goes back to its newest checkpoint.
TEST(DecidePs, PsThatHasLostItsShardEndsTheAttempt) {
  TestWorld world(OnPs(2));
  world.Launch();
  world.Exit("mnist-ps-1", 137);
  world.Step();
  world.RunAll();
  world.Step();
  world.Exit("mnist-ps-1-r1", kExitRetryable);

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

// One kill is one restart and one incident: a successor of it would find nobody to fill it.
TEST(DecidePs, OnlyPsThatIsLostEndsTheAttempt) {
  TestWorld world(OnPs(1));
  world.Launch();
  world.Exit("mnist-ps-0", 137);

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(decision.status), "killed=1");
}

TEST(DecidePs, NeighboursThatAreLostAtOnceEndTheAttempt) {
  TestWorld world(OnPs(3));
  world.Launch();
  world.Exit("mnist-ps-0", 137);
  world.Exit("mnist-ps-2", 137);

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

TEST(DecidePs, NeighbourOfOneThatIsBeingReplacedEndsTheAttempt) {
  TestWorld world(OnPs(2));
  world.Launch();
  world.Exit("mnist-ps-0", 137);
  EXPECT_EQ(world.Step().status.attempt, Attempt(0));
  world.Exit("mnist-ps-1", 137);

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

TEST(DecidePs, ThoseThatHoldNoShardTogetherAreReplacedAlone) {
  TestWorld world(OnPs(4));
  world.Launch();
  world.Exit("mnist-ps-0", 137);
  world.Exit("mnist-ps-2", 137);

  EXPECT_EQ(world.Step().status.attempt, Attempt(0));
}

}  // namespace
}  // namespace lockstep::control
