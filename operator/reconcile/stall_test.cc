#include "operator/reconcile/stall.h"

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_asking_world.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

class StallTest : public ::testing::Test {
 protected:
  // What is decided, with the status taken over.
  Decision Stall(const std::string& problem, bool is_newer) {
    world_.observed.job_problem = problem;
    world_.observed.is_job_newer = is_newer;
    Decision decision = StallJob(world_.job, world_.observed, world_.now);
    world_.job.status = decision.status;
    return decision;
  }

  TestWorld world_{MakeTrainingJob(2)};
};

TEST_F(StallTest, JobThatCannotBeReadStandsInNoQueue) {
  world_.job.status.queue = QueuePosition{"vision", 3, std::nullopt};
  world_.job.status.conditions = {{ConditionType::kCreated, true, "R", "m", WallTime{}}};
  EXPECT_FALSE(Stall("spec.color: unknown field", true).status.queue.has_value());
}

TEST_F(StallTest, JobThatWasStalledBeforeItWasTakenUpFailsWhenItIsWrongInEveryVersion) {
  Stall("spec.color: unknown field", true);
  EXPECT_EQ(StateWord(world_.job.status), "Stalled");

  const Decision decision = Stall("spec.roles[0].replicas: -1 found", false);
  EXPECT_EQ(StateWord(decision.status), "Failed");
  EXPECT_FALSE(IsTrue(decision.status, ConditionType::kStalled));
  ASSERT_EQ(decision.events.size(), 1U);
  EXPECT_EQ(decision.events[0].reason, "InvalidJob");

  const Decision again = Stall("spec.roles[0].replicas: -1 found", false);
  EXPECT_EQ(again.status, decision.status);
  EXPECT_TRUE(again.events.empty());
  EXPECT_TRUE(again.metrics.empty());
}

TEST_F(StallTest, JobThatWasTakenUpIsLeftAsItIsWhateverIsWrong) {
  world_.Launch();
  const Decision decision = Stall("spec.roles[0].replicas: -1 found", false);
  EXPECT_EQ(StateWord(decision.status), "Stalled");
  EXPECT_TRUE(decision.effects.empty());
}

// A user who breaks the manifest frees nothing and gains no time.
TEST_F(StallTest, GangWhoseManifestCannotBeReadEndsAtItsLimit) {
  world_.job.spec.run_policy.active_deadline = std::chrono::seconds(60);
  world_.Launch();
  EXPECT_EQ(world_.job.status.origin.active_deadline, std::chrono::seconds(60));
  Decision decision = Stall("spec.color: unknown field", false);
  EXPECT_EQ(StateWord(decision.status), "Stalled");
  EXPECT_EQ(FindCondition(decision.status, ConditionType::kStalled)->reason, "Unreadable");
  ASSERT_TRUE(decision.next_wakeup.has_value());
  EXPECT_TRUE(decision.effects.empty());

  world_.now = *decision.next_wakeup;
  decision = Stall("spec.color: unknown field", false);
  EXPECT_TRUE(HasEndedByLimit(decision.status));
  EXPECT_EQ(decision.effects.size(), 2U) << "both pods are asked to end";
  decision = Stall("spec.color: unknown field", false);
  EXPECT_EQ(decision.effects.size(), 2U) << "and again, should that have failed";
}

TEST_F(StallTest, GangWhoseManifestCannotBeReadGoesForOthersAsBefore) {
  world_.Launch();
  const Attempt attempt = world_.job.status.attempt;
  world_.observed.eviction = EvictionOrder{"team/urgent", 5, "default", false};
  const Decision decision = Stall("spec.color: unknown field", false);
  EXPECT_TRUE(decision.status.placement.empty());
  EXPECT_EQ(decision.status.preemptions, 1);
  EXPECT_NE(decision.status.attempt, attempt);
  EXPECT_EQ(decision.effects.size(), 2U);
  EXPECT_NE(MessageOf(decision.status, ConditionType::kScheduled).find("team/urgent"),
            std::string::npos);
}

// A gang runs, and its request is still there; then nobody can read its manifest, and its time is
// over.
TEST_F(StallTest, NothingIsAskedForAGangThatALimitHasEnded) {
  world_.job.spec.run_policy.active_deadline = std::chrono::seconds(60);
  world_.Launch();
  world_.job.status.provisioning.emplace().open.emplace();
  world_.observed.provisioning.is_followed = true;
  CapacityObject request;
  request.name = "mnist-1";
  request.is_ours = true;
  world_.observed.provisioning.requests = {request};
  const Decision before = Stall("spec.color: unknown field", false);
  EXPECT_TRUE(before.status.provisioning->open.has_value()) << "its pods may still use what came";

  world_.now = *before.next_wakeup;
  const Decision decision = Stall("spec.color: unknown field", false);
  EXPECT_TRUE(HasEndedByLimit(decision.status));
  EXPECT_FALSE(decision.status.provisioning->open.has_value());
  EXPECT_EQ(FakeAskingWorld::WritesOf(decision).size(), 1U) << "the request is removed";
}

}  // namespace
}  // namespace lockstep::control
