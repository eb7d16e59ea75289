#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/testing/small_world.h"

// How long the checks put up with what is to pass, to the millisecond: each table has rows on
// either side of the line.
namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct PatienceRow {
  Duration after;
  std::string verdict;
};

// Of a pod that is about to go, in peace.
TEST(Patience, PodThatIsAboutToGoCountsAsActiveForAMoment) {
  const std::string stale = "1 pods count as active, and all but 0 are about to go, or gone";
  for (const auto& [after, verdict] :
       std::vector<PatienceRow>{{milliseconds(14'999), ""}, {seconds(15), stale}}) {
    SmallWorld world(MakeTrainingJob(1));
    const std::string pod = world.AddPod(0, {}, "n0");
    world.Write([&](TrainingJobStatus* status) {
      Place(0, "n0", pod, status);
      status->roles = {{Role::kWorker, 0, 1, 0, 0}};
    });
    world.BeAtPeace();
    world.context.now += minutes(5);
    world.AskToGo(pod);
    world.checks.CheckWorld();
    ASSERT_EQ(world.checks.problem(), "");
    world.context.now += after;
    world.AddForeignPod("other", "n1", 1);  // something happens, so that all is looked at
    world.checks.CheckWorld();

    ExpectVerdict(world, verdict, "active");
  }
}

// Calendars of operators differ from the server's.
TEST(Patience, GangMayBePlacedFiveSecondsBeforeItsPauseIsOver) {
  const std::string early = "placed in the middle of its pause";
  for (const auto& [after, verdict] :
       std::vector<PatienceRow>{{seconds(5), ""}, {milliseconds(4'999), early}}) {  // of 10 s
    SmallWorld world(MakeTrainingJob(1));
    world.Write([&](TrainingJobStatus* status) {
      status->rollbacks = 1;
      status->retry_at = world.context.ServerTime() + seconds(10);
    });
    world.context.now += after;

    world.Write([](TrainingJobStatus* status) { Place(0, "n0", "", status); });

    ExpectVerdict(world, verdict, "placed");
  }
}

void Fail(const std::string& reason, TrainingJobStatus* status) {
  SetCondition(status, {ConditionType::kFailed, true, reason, ""}, WallTime(seconds(0)));
}

// What a status says may have been decided 50 s before it was written.
TEST(Patience, DeadlineMayBeReachedFiftySecondsBefore) {
  const std::string early = "failed, and nothing that happened explains it: DeadlineExceeded: ";
  for (const auto& [after, verdict] :
       std::vector<PatienceRow>{{seconds(50), ""}, {milliseconds(49'999), early}}) {
    TrainingJob job = MakeTrainingJob(1);
    job.spec.run_policy.active_deadline = seconds(100);
    SmallWorld world(job);
    world.Write([](TrainingJobStatus* status) { Place(0, "n0", "", status); });
    world.context.now += after;

    world.Write([](TrainingJobStatus* status) { Fail("DeadlineExceeded", status); });

    ExpectVerdict(world, verdict, "deadline");
  }
}

TEST(Patience, WaitForRoomMayBeOverFiftySecondsBefore) {
  const std::string early = "failed, and nothing that happened explains it: SchedulingTimeout: ";
  for (const auto& [after, verdict] :
       std::vector<PatienceRow>{{seconds(50), ""}, {milliseconds(49'999), early}}) {
    TrainingJob job = MakeTrainingJob(1);
    job.spec.scheduling.timeout = seconds(100);
    SmallWorld world(job);
    world.Write([](TrainingJobStatus* status) { status->observed_generation = 1; });
    world.context.now += after;

    world.Write([](TrainingJobStatus* status) { Fail("SchedulingTimeout", status); });

    ExpectVerdict(world, verdict, "wait");
  }
}

TEST(Patience, GangMayBePartlyBoundForThreeMinutes) {
  const std::string partly = "a gang is partly placed for too long";
  for (const auto& [after, verdict] :
       std::vector<PatienceRow>{{minutes(3), ""}, {minutes(3) + milliseconds(1), partly}}) {
    SmallWorld world(MakeTrainingJob(2));
    world.AddPod(0, {}, "n0");
    world.Write([](TrainingJobStatus* status) {
      Place(0, "n0", "", status);
      Place(1, "n0", "", status);
    });
    world.checks.CheckWorld();
    world.context.now += after;
    world.checks.CheckWorld();

    ExpectVerdict(world, verdict, "partly bound");
  }
}

// Nobody knows of an end before its kubelet tells: a rank may have its successor before.
TEST(Patience, PodWhoseProcessHasEndedMayStandBesideItsSuccessor) {
  struct Case {
    std::string what;
    bool has_ended;
    std::string verdict;
  };

  for (const auto& [what, has_ended, verdict] :
       std::vector<Case>{{"has ended", true, ""}, {"runs", false, "worker-0 has two pods"}}) {
    SmallWorld world(MakeTrainingJob(1));
    const std::string old = world.AddPod(0, {}, "n0");
    world.StartProcess(old, "n0");
    world.Write([&](TrainingJobStatus* status) {
      Place(0, "n0", old, status);
      status->placement[0].incarnation = Incarnation(1);
    });
    const std::string successor = world.AddPod(0, {{}, Incarnation(1)}, "n1");
    world.StartProcess(successor, "n1");
    if (has_ended) {
      world.processes.End(old, {134, "Error"});
    }

    world.checks.CheckWorld();

    ExpectVerdict(world, verdict, what);
  }
}

// Nor is one that was deleted before any node had it a second pod, whoever holds its object back.
TEST(Patience, PodThatIsDeletedBeforeItWasBoundIsNoSecondOne) {
  struct Case {
    std::string node;
    std::string verdict;
  };

  for (const auto& [node, verdict] :
       std::vector<Case>{{"", ""}, {"n0", "pods of two attempts live side by side"}}) {
    SmallWorld world(MakeCommandJob(1));
    world.AskToGo(world.AddPod(0, {}, node));
    world.Write([](TrainingJobStatus* status) { status->attempt = status->attempt.Next(); });
    world.AddPod(0, {Attempt(1), {}}, "n1");
    world.Write([](TrainingJobStatus* status) { Place(0, "n1", "", status); });

    world.checks.CheckWorld();

    ExpectVerdict(world, verdict, node);
  }
}

// A younger gang takes the place of an older one that pauses. What an operator saw may be 15 s old.
TEST(Patience, PlaceOfAGangThatPausesMayBeTakenWhereTheClusterHasJustChanged) {
  const std::string taken = "took the place of j, which is older and waits";
  for (const auto& [after, verdict] :
       std::vector<PatienceRow>{{milliseconds(14'999), ""}, {seconds(15), taken}}) {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.roles[0].gpus = 4;
    SmallWorld world(job);
    job.spec.roles[0].replicas = 1;
    world.CreateJob("younger", job);
    world.Write([&](TrainingJobStatus* status) {
      status->quick_restarts = 1;
      status->retry_at = world.context.ServerTime() + minutes(10);
    });
    world.BeAtPeace();
    world.context.now += minutes(5);
    world.AddForeignPod("other", "n1", 0);
    world.checks.CheckWorld();
    world.context.now += after;

    world.Write("younger", [](TrainingJobStatus* status) { Place(0, "n0", "", status); });

    ExpectVerdict(world, verdict, "younger");
  }
}

// A younger gang is placed in the round in which the pause of an older one ends.
TEST(Patience, GangWhosePauseHasJustEndedMayFindItsPlaceTaken) {
  const std::string taken = "took the place of j, which is older and waits";
  for (const auto& [after, verdict] :
       std::vector<PatienceRow>{{milliseconds(29'999), ""}, {seconds(30), taken}}) {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.roles[0].gpus = 4;
    SmallWorld world(job);
    job.spec.roles[0].replicas = 1;
    world.CreateJob("younger", job);
    const auto wait = [&](const std::string& reason) {
      world.Write([&](TrainingJobStatus* status) {
        status->observed_generation = 1;
        status->rollbacks = 1;
        SetCondition(status,
                     {ConditionType::kScheduled, false, reason, "as the test says"},
                     world.context.ServerTime());
      });
    };
    world.Write([&](TrainingJobStatus* status) {
      status->retry_at = world.context.ServerTime() + minutes(5);
    });
    wait("PodRefused");
    world.BeAtPeace();
    world.context.now += minutes(5);
    world.Write([](TrainingJobStatus* status) { status->retry_at.reset(); });
    wait("Unschedulable");
    world.context.now += after;

    world.Write("younger", [](TrainingJobStatus* status) { Place(0, "n0", "", status); });

    ExpectVerdict(world, verdict, "younger");
  }
}

}  // namespace
}  // namespace lockstep::control::sim
