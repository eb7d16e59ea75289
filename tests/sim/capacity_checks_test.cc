#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/kubeclient/kube/capacity_kinds.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/testing/small_world.h"

// What is asked of autoscalers, and what is left of it: what the checks let pass, and the first
// thing that they do not.
namespace lockstep::control::sim {
namespace {

using std::chrono::minutes;

const std::string kRequest = "j-uid-1-1";
const std::string kTemplate = "j-uid-1-1-worker";

TrainingJob AskingJob() {
  TrainingJob job = MakeCommandJob(1);
  job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
  return job;
}

// Its status says that it asks, by that number, and why it waits.
void SayAsks(SmallWorld* world, int64_t count, const std::string& reason) {
  world->Write([&](TrainingJobStatus* status) {
    status->provisioning = CapacityAsk{count, OpenAsk{}, 0, {}, ""};
    SetCondition(status,
                 {ConditionType::kScheduled, false, reason, "needs 8 GPUs"},
                 world->context.ServerTime());
  });
}

class CapacityCheck : public ::testing::Test {
 protected:
  CapacityCheck() { world_.context.has_autoscaler = true; }

  SmallWorld world_{AskingJob()};
};

TEST_F(CapacityCheck, RequestIsMadeWhenItsTemplateIsThere) {
  world_.Ask(kube::kPodTemplates, kTemplate, "a");
  world_.Ask(kube::kProvisioningRequests, kRequest, "a");
  ExpectVerdict(world_, "", "in order");

  world_.Ask(kube::kProvisioningRequests, "j-uid-1-2", "a");
  ExpectVerdict(world_, "is made before its template j-uid-1-2-worker", "without its template");
}

TEST_F(CapacityCheck, TemplateThatSomebodyHasRemovedMayBeMissing) {
  world_.checks.capacity()->NoteRemoved();
  world_.Ask(kube::kProvisioningRequests, kRequest, "a");
  ExpectVerdict(world_, "", "removed");
}

TEST_F(CapacityCheck, NameIsOfOneAskForEver) {
  world_.Ask(kube::kPodTemplates, kTemplate, "a");
  world_.TakeBack(kube::kPodTemplates, kTemplate);
  world_.Ask(kube::kPodTemplates, kTemplate, "a");
  ExpectVerdict(world_, "", "the same ask, made again");

  world_.TakeBack(kube::kPodTemplates, kTemplate);
  world_.Ask(kube::kPodTemplates, kTemplate, "b");
  ExpectVerdict(world_, "the name j-uid-1-1-worker is used again", "another ask");
}

TEST(CapacityChecks, JobThatDoesNotSayThatItAsksDoesNot) {
  SmallWorld world(MakeCommandJob(1));
  world.Ask(kube::kPodTemplates, kTemplate, "a");
  ExpectVerdict(world, "is made for a job that asks for nothing", "no field");
}

TEST_F(CapacityCheck, WhatNobodyAsksForIsGoneInTime) {
  world_.Ask(kube::kPodTemplates, kTemplate, "a");
  world_.checks.CheckWorld();
  world_.context.now += minutes(3);
  world_.checks.CheckWorld();
  ExpectVerdict(world_, "", "three minutes");

  world_.context.now += minutes(1);
  world_.checks.CheckWorld();
  ExpectVerdict(world_, "j-uid-1-1-worker outlives what it was asked for", "longer");
}

TEST_F(CapacityCheck, WhatIsAskedForStays) {
  SayAsks(&world_, 1, "Unschedulable");
  world_.Ask(kube::kPodTemplates, kTemplate, "a");
  world_.checks.CheckWorld();
  world_.context.now += minutes(30);
  world_.checks.CheckWorld();
  ExpectVerdict(world_, "", "asked for");
  EXPECT_EQ(world_.checks.capacity()->OutOfPlace(), "j asks by j-uid-1-1, which is not there");
  world_.Ask(kube::kProvisioningRequests, kRequest, "a");
  EXPECT_EQ(world_.checks.capacity()->OutOfPlace(), "");
  world_.Write([](TrainingJobStatus* status) { status->provisioning->open.reset(); });
  EXPECT_EQ(world_.checks.capacity()->OutOfPlace(), "j-uid-1-1-worker is left over");
}

TEST_F(CapacityCheck, WhatSomebodyHasEditedIsTakenBackInTimeThoughItIsAskedFor) {
  SayAsks(&world_, 1, "Unschedulable");
  world_.Ask(kube::kPodTemplates, kTemplate, "a");
  world_.EditAsked(kube::kPodTemplates, kTemplate);
  world_.checks.CheckWorld();
  ExpectVerdict(world_, "", "a moment");
  world_.context.now += minutes(4);
  world_.checks.CheckWorld();
  ExpectVerdict(world_, "j-uid-1-1-worker outlives what it was asked for", "longer");
}

TEST(CapacityChecks, OnlyWhoWaitsForRoomAsks) {
  struct Row {
    std::string reason;
    int64_t count;
    std::string verdict;
  };

  const std::vector<Row> rows = {
      {"Unschedulable", 1, ""},
      {"WaitsForQuota", 1, "and waits for something else: WaitsForQuota"},
      {"WaitsInQueue", 1, "and waits for something else: WaitsInQueue"},
      {"Unschedulable", 2, "asks by a number that was used"},
  };
  for (const Row& row : rows) {
    SmallWorld world(AskingJob());
    world.context.has_autoscaler = true;
    SayAsks(&world, row.count, row.reason);
    ExpectVerdict(world, row.verdict, row.reason);
  }
}

// All is known, and both nodes are free.
TEST_F(CapacityCheck, WhoHasRoomAsksForNone) {
  world_.checks.CheckWorld();
  world_.BeAtPeace();
  world_.context.now += minutes(5);
  SayAsks(&world_, 1, "Unschedulable");
  ExpectVerdict(world_, "j: asks for nodes, and there is room for it", "free nodes");
}

}  // namespace
}  // namespace lockstep::control::sim
