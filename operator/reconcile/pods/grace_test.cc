#include "operator/reconcile/pods/grace.h"

#include <string>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST(Grace, TableOfFarewellsAndRoles) {
  struct Row {
    Farewell farewell;
    Role role;
    bool is_training;
    int grace;
    int expected;
  };

  const std::vector<Row> rows = {
      {Farewell::kRequest, Role::kWorker, false, 30, 30},
      {Farewell::kRollback, Role::kWorker, false, 30, 5},
      {Farewell::kRollback, Role::kWorker, true, 30, 5},
      {Farewell::kLoss, Role::kWorker, false, 30, 2},
      {Farewell::kLoss, Role::kPs, false, 30, 2},
      {Farewell::kLoss, Role::kWorker, false, 1, 1},
      {Farewell::kLoss, Role::kWorker, true, 30, 30},
      {Farewell::kSuccess, Role::kPs, false, 30, 2},
      {Farewell::kSuccess, Role::kWorker, false, 30, 2},
      {Farewell::kSuccess, Role::kWorker, true, 30, 30},
      {Farewell::kSuccess, Role::kEvaluator, false, 30, 30},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(GraceFor(row.farewell, row.role, row.is_training, seconds(row.grace)),
              seconds(row.expected))
        << static_cast<int>(row.farewell) << " " << RoleName(row.role) << " " << row.is_training;
  }
}

// The survivors of a command's gang are given two seconds, not their pods' thirty.
TEST(Grace, SurvivorsOfALossMakeRoomSoon) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);

  EXPECT_EQ(DescribeEffects(world.Step()),
            "delete pod mnist-worker-0 within 2 s: the attempt is over\ndelete pod mnist-worker-1 "
            "within 2 s: the attempt is over\n");
}

// On one machine it is known who does not answer: it will not mind SIGTERM either.
TEST(Grace, FrozenPodGetsNone) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.ReportAll();
  world.observed.mute_pods = {"mnist-worker-1"};

  EXPECT_EQ(DescribeEffects(world.Step()),
            "delete pod mnist-worker-0 within 2 s: the attempt is over\ndelete pod mnist-worker-1 "
            "within 0 s: the attempt is over\n");
}

TEST(Grace, SuspendedJobMaySaveWhatItHolds) {
  TestWorld world(MakeCommandJob(1));
  world.Launch();
  world.job.spec.run_policy.suspend = true;

  EXPECT_EQ(DescribeEffects(world.Step()),
            "delete pod mnist-worker-0 within 30 s: the attempt is over\n");
}

// Parameter servers serve for ever, and so do the workers that a coordinating chief uses.
TEST(Grace, AfterTheChiefsSuccessServersEndAtOnce) {
  TrainingJob job = MakeCommandJob(1);
  AddRole(Role::kChief, 1, &job);
  AddRole(Role::kPs, 1, &job);
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-chief-0", 0);
  world.ReportAll();

  const std::string effects = DescribeEffects(world.Step());

  EXPECT_NE(effects.find("delete pod mnist-ps-0 within 2 s"), std::string::npos) << effects;
  EXPECT_NE(effects.find("delete pod mnist-worker-0 within 2 s"), std::string::npos) << effects;
}

TEST(Grace, JobThatRanTooLongKeepsItsGrace) {
  TrainingJob job = MakeCommandJob(1);
  job.spec.run_policy.active_deadline = seconds(100);
  TestWorld world(job);
  world.Launch();
  world.Advance(seconds(100));

  EXPECT_EQ(DescribeEffects(world.Step()),
            "delete pod mnist-worker-0 within 30 s: the job has ended\n");
}

}  // namespace
}  // namespace lockstep::control
