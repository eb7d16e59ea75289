// Ports of a run on one machine that another process has taken.

#include <chrono>

#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST(DecidePorts, LostOnesStartTheGangAnewOnceAndCostNothing) {
  TestWorld world(MakeTrainingJob(2));
  world.job.spec.run_policy.backoff_limit = 0;
  world.observed.is_one_machine = true;
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.observed.lost_ports = LostPorts{Attempt(0), "127.1.0.2:12051 is in use"};

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(decision.status), "port_taken=1");
  EXPECT_EQ(CountedIncidents(decision.status.incidents), 0);
  EXPECT_EQ(
      decision.events.front().message,
      "127.1.0.2:12051 is in use, cause port_taken; does not count against runPolicy.backoffLimit");
  world.FinishDeletions();
  world.Advance(seconds(60));
  world.Step();
  EXPECT_EQ(world.job.status.attempt, Attempt(1)) << "those of attempt 0 are lost, no others";
}

// Of a cluster's pod only another container of it can have its port.
TEST(DecidePorts, PodThatFoundItsPortTakenCostsNothingOnOneMachineOnly) {
  for (const bool is_one_machine : {true, false}) {
    TestWorld world(MakeTrainingJob(2));
    world.observed.is_one_machine = is_one_machine;
    world.Launch();
    world.Exit("mnist-worker-1", kExitPortTaken);
    const Decision decision = world.Step();
    EXPECT_EQ(DescribeRestarts(decision.status), "port_taken=1");
    EXPECT_EQ(CountedIncidents(decision.status.incidents), is_one_machine ? 0 : 1);
  }
}

}  // namespace
}  // namespace lockstep::control
