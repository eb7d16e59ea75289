#include "operator/reconcile/recovery/gang_relaunch.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/status/termination_message.h"
#include "operator/api/job/encode.h"
#include "operator/api/rules/recovery_rules.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/status.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TrainingJob MakeRelaunchJob(int workers) {
  TrainingJob job = MakeCommandJob(workers);
  job.spec.recovery.relaunch = true;
  return job;
}

// A gang of two commands whose runtimes hold the ends of their programs.
class RelaunchTest : public testing::Test {
 protected:
  RelaunchTest() : world_(MakeRelaunchJob(2)) {
    world_.Launch();
    Report();
  }

  // What each pod tells now.
  struct Told {
    int64_t relaunches = 0;
    std::optional<HeldEnd> held;
  };

  void Report() {
    world_.ReportAll();
    for (auto& [pod, report] : world_.observed.reports) {
      report.document.relaunches = told_[pod].relaunches;
      report.document.held = told_[pod].held;
    }
  }

  void Hold(const std::string& pod, int code) {
    told_[pod].held = HeldEnd{code, code > 128 ? code - 128 : 0, 0, ""};
    Report();
  }

  void Start(const std::string& pod, int64_t relaunches) {
    told_[pod] = {relaunches, std::nullopt};
    Report();
  }

  std::string Step() {
    const Decision decision = world_.Step();
    events_ += EventReasons(decision);
    return DescribeEffects(decision);
  }

  // As Step, every 2 s for so long: an operator that is there.
  void Watch(seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(2)) {
      world_.Advance(seconds(2));
      Report();
      Step();
    }
  }

  // Both have failed once and run again.
  void LoseBoth() {
    const int64_t number = world_.job.status.relaunch.count + 1;
    Hold(kFirst, 137);
    Hold(kSecond, 1);
    Step();
    Start(kFirst, number);
    Start(kSecond, number);
    Step();
  }

  static constexpr const char* kFirst = "mnist-worker-0";
  static constexpr const char* kSecond = "mnist-worker-1";

  TestWorld world_;
  std::map<std::string, Told> told_;
  std::string events_;
};

TEST_F(RelaunchTest, LostProgramHasTheOthersEndAndThenAllStartAgain) {
  Hold(kFirst, 137);
  EXPECT_EQ(Step(), "tell pod mnist-worker-1: halt for relaunch 1\n");
  EXPECT_EQ(events_, "GangRelaunch");
  EXPECT_EQ(TrueConditions(world_.job.status), "Created Scheduled Restarting");
  EXPECT_EQ(world_.job.status.epoch, Epoch(1));
  EXPECT_EQ(DescribeRestarts(world_.job.status), "killed=1");

  Hold(kSecond, 0);
  EXPECT_EQ(Step(),
            "tell pod mnist-worker-0: relaunch 1\n"
            "tell pod mnist-worker-1: relaunch 1\n");

  Start(kFirst, 1);
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(TrueConditions(world_.job.status), "Created Scheduled Restarting");
  Start(kSecond, 1);
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(TrueConditions(world_.job.status), "Created Scheduled Running");
  EXPECT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
  EXPECT_EQ(world_.job.status.relaunch.since, std::nullopt);
  EXPECT_EQ(world_.job.status.incidents.size(), 1U);
}

TEST_F(RelaunchTest, EventSaysThatPodsStayAndWhatItCosts) {
  Hold(kFirst, 137);
  Step();
  EXPECT_EQ(MessageOf(world_.job.status, ConditionType::kRestarting),
            "pod mnist-worker-0 (rank 0) killed by SIGKILL (exit code 137), cause killed; incident "
            "1 of 6 allowed; the programs of all ranks restart in their pods");
}

// Pods are asked one after the other: the loss may be told after the end that it brought about.
TEST_F(RelaunchTest, EndThatCameFirstByTheClockIsTheCauseThoughAnotherWasToldFirst) {
  Hold(kSecond, 134);
  Step();
  EXPECT_EQ(DescribeRestarts(world_.job.status), "crash=1");
  world_.Advance(milliseconds(200));
  told_[kFirst].held = HeldEnd{137, 9, 0.7, ""};
  Report();
  EXPECT_EQ(Step(),
            "tell pod mnist-worker-0: relaunch 1\n"
            "tell pod mnist-worker-1: relaunch 1\n");
  EXPECT_EQ(MessageOf(world_.job.status, ConditionType::kRestarting),
            "pod mnist-worker-0 (rank 0) killed by SIGKILL (exit code 137), cause killed; incident "
            "1 of 6 allowed; the programs of all ranks restart in their pods");
  EXPECT_EQ(world_.job.status.last_failure->pod, kFirst);
  EXPECT_EQ(DescribeRestarts(world_.job.status), "killed=1");
  ASSERT_EQ(world_.job.status.incidents.size(), 1U);
  EXPECT_EQ(world_.job.status.incidents[0].cause, "killed");
  EXPECT_EQ(events_, "GangRelaunchFirstToEnd");
}

TEST_F(RelaunchTest, EndsThatNobodyCanPutInOrderAreAllNamed) {
  Hold(kSecond, 134);
  Step();
  told_[kSecond].held->seconds_ago = 0.1;
  told_[kFirst].held = HeldEnd{139, 11, 0.2, ""};
  Report();
  Step();
  EXPECT_EQ(
      MessageOf(world_.job.status, ConditionType::kRestarting),
      "one of these programs ended first: (pod mnist-worker-0 (rank 0) crashed with SIGSEGV (exit "
      "code 139), cause crash) and (pod mnist-worker-1 (rank 1) crashed with SIGABRT (exit code "
      "134), cause crash); incident 1 of 6 allowed; the programs of all ranks restart in their "
      "pods");
  EXPECT_EQ(world_.job.status.last_failure->pod, kSecond) << "it may be that one";
  EXPECT_EQ(events_, "GangRelaunchFirstToEnd");
}

TEST_F(RelaunchTest, ProgramsThatWereKilledAtOnceAreAllNamed) {
  Hold(kSecond, 137);
  Step();
  told_[kSecond].held->seconds_ago = 0.1;
  told_[kFirst].held = HeldEnd{137, 9, 0.2, ""};
  Report();
  Step();
  EXPECT_EQ(MessageOf(world_.job.status, ConditionType::kRestarting),
            "pod mnist-worker-0 (rank 0) killed by SIGKILL (exit code 137) and pod mnist-worker-1 "
            "(rank 1) killed by SIGKILL (exit code 137), within 250 ms of each other, cause "
            "killed; incident 1 of 6 allowed; the programs of all ranks restart in their pods");
  EXPECT_EQ(world_.job.status.last_failure->pod, kSecond) << "it is one of them";
  EXPECT_EQ(DescribeRestarts(world_.job.status), "killed=1");
  EXPECT_EQ(events_, "GangRelaunchFirstToEnd");
}

// The kubelets of two nodes tell it by the second: stamps of 10 s and 11 s may be of 10.0 s and
// 11.9 s.
TEST(RestartGang, PodsThatWereKilledAtOnceAreAllNamed) {
  for (const seconds apart : {seconds(0), seconds(1)}) {
    TestWorld world(MakeCommandJob(2));
    world.Launch();
    world.Exit("mnist-worker-0", 137);
    world.Advance(apart);
    world.Exit("mnist-worker-1", 137);
    world.Step();
    EXPECT_THAT(
        MessageOf(world.job.status, ConditionType::kRestarting),
        testing::StartsWith("pod mnist-worker-0 (rank 0) killed by SIGKILL (exit code 137) and pod "
                            "mnist-worker-1 (rank 1) killed by SIGKILL (exit code 137), within " +
                            std::to_string(apart.count() + 1) +
                            " s of each other, cause killed; incident 1 of 6 allowed"));
  }
}

// Conditions are as long as their messages, and a gang has up to 4,096 pods.
TEST(RestartGang, OfManyThatWereKilledAtOnceTheFirstFewAreNamed) {
  TestWorld world(MakeCommandJob(9));
  world.Launch();
  for (int i = 0; i < 9; ++i) {
    world.Exit("mnist-worker-" + std::to_string(i), 137);
  }
  world.Step();
  for (const ConditionType type : {ConditionType::kRestarting, ConditionType::kScheduled}) {
    EXPECT_THAT(MessageOf(world.job.status, type),
                testing::HasSubstr(
                    "pod mnist-worker-3 (rank 3) killed by SIGKILL (exit code 137), pod "
                    "mnist-worker-4 (rank 4) killed by SIGKILL (exit code 137) and 4 more, within "
                    "1 s of each other, cause killed"));
  }
}

TEST(NameFirstEnd, OfManyThatNobodyCanPutInOrderTheFirstFewAreNamed) {
  TestWorld world(MakeRelaunchJob(9));
  world.Launch();
  world.ReportAll();
  for (auto& [pod, report] : world.observed.reports) {
    report.document.relaunches = 0;
    report.document.held = HeldEnd{139, 11, 0.1, ""};
  }
  world.Step();
  EXPECT_THAT(MessageOf(world.job.status, ConditionType::kRestarting),
              testing::HasSubstr("(pod mnist-worker-4 (rank 4) crashed with SIGSEGV (exit code "
                                 "139), cause crash) and 4 more; incident 1 of 6 allowed"));
}

TEST_F(RelaunchTest, EndThatWasToldFirstAndCameFirstIsSaidOnce) {
  Hold(kFirst, 137);
  Step();
  world_.Advance(milliseconds(700));
  told_[kFirst].held->seconds_ago = 0.7;
  Hold(kSecond, 134);
  Step();
  EXPECT_EQ(world_.job.status.last_failure->pod, kFirst);
  EXPECT_EQ(events_, "GangRelaunch");
}

TEST_F(RelaunchTest, EchoOfTheLossIsNoSecondFailure) {
  Hold(kFirst, 137);
  Step();
  Hold(kSecond, 1);  // which would fail the job by itself
  EXPECT_EQ(Step(),
            "tell pod mnist-worker-0: relaunch 1\n"
            "tell pod mnist-worker-1: relaunch 1\n");
  EXPECT_FALSE(HasEnded(world_.job.status));
  EXPECT_EQ(DescribeRestarts(world_.job.status), "killed=1");
}

TEST_F(RelaunchTest, EchoThatIsToldFirstIsNotBelievedAtOnce) {
  Hold(kSecond, 1);
  EXPECT_EQ(Step(), "");
  Hold(kFirst, 137);
  EXPECT_EQ(Step(),
            "tell pod mnist-worker-0: relaunch 1\n"
            "tell pod mnist-worker-1: relaunch 1\n");
}

TEST_F(RelaunchTest, OwnVerdictOfAllProgramsFailsTheJob) {
  Hold(kFirst, 1);
  Hold(kSecond, 1);
  Step();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kFailed));
}

// As a pod that ended with its program would: its log stays for whoever looks for the cause.
TEST_F(RelaunchTest, EndOfTheJobLetsHeldPodsEndAndDeletesNone) {
  Hold(kFirst, 1);
  Hold(kSecond, 1);
  EXPECT_EQ(Step(), "tell pod mnist-worker-0: stop\ntell pod mnist-worker-1: stop\n");
  EXPECT_EQ(Step(), "");
}

TEST_F(RelaunchTest, MessagesThatWereLostAreSentAgainAndNotSooner) {
  Hold(kFirst, 137);
  Step();
  world_.Advance(milliseconds(1900));
  EXPECT_EQ(Step(), "");
  world_.Advance(milliseconds(200));
  EXPECT_EQ(Step(), "tell pod mnist-worker-1: halt for relaunch 1\n");
  EXPECT_EQ(Step(), "");
}

TEST_F(RelaunchTest, PodThatDoesNotFollowCostsTheGangItsPods) {
  Hold(kFirst, 137);
  Step();
  Watch(kRelaunchPatience - seconds(2));
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
  Watch(seconds(2));
  EXPECT_EQ(world_.job.status.attempt, Attempt(2));  // programs may have seen attempt 1
  EXPECT_EQ(world_.job.status.relaunch, Relaunch());
  EXPECT_EQ(MessageOf(world_.job.status, ConditionType::kRestarting).substr(0, 72),
            "pod mnist-worker-0 (rank 0) did not restart its programs within 30 s, ca");
  EXPECT_EQ(world_.job.status.incidents.size(), 1U) << "it is the same incident";
}

// The leader dies when it has counted the end, and before the pod is told: in the end its runtime
// waits no longer.
TEST_F(RelaunchTest, HeldPodThatEndsBeforeItsRelaunchIsTheSameIncident) {
  Hold(kFirst, 70);
  Step();
  ASSERT_EQ(CountedIncidents(world_.job.status.incidents), 1);
  world_.Exit(kFirst, 70);
  Step();
  EXPECT_EQ(world_.job.status.attempt, Attempt(2));
  EXPECT_EQ(CountedIncidents(world_.job.status.incidents), 1);
}

// All programs have ended when the leader counts that, and so they may start at once. Whether a pod
// that ends has done so before or after its relaunch, its last words say.
TEST_F(RelaunchTest, EndOfAHeldPodCountsOnceThoughAllWereReadyForTheRelaunch) {
  const auto counted_after = [](std::optional<int64_t> relaunches) {
    TestWorld world(MakeRelaunchJob(1));
    world.Launch();
    world.ReportAll();
    StatusDocument* const document = &world.observed.reports[kFirst].document;
    document->relaunches = 0;
    document->held = HeldEnd{70, 0, 0, ""};
    world.Step();
    EXPECT_TRUE(world.job.status.relaunch.is_halted);
    world.Advance(seconds(40));
    world.Exit(kFirst, 70);
    TerminationMessage message;
    message.relaunches = relaunches;
    world.Find(kFirst)->status.termination->message = EncodeTerminationMessage(message);
    world.Step();
    EXPECT_EQ(world.job.status.attempt, Attempt(2));
    return CountedIncidents(world.job.status.incidents);
  };
  EXPECT_EQ(counted_after(0), 1) << "the end that the relaunch was to answer";
  EXPECT_EQ(counted_after(1), 2) << "the relaunched program's own";
  EXPECT_EQ(counted_after(std::nullopt), 2) << "an earlier runtime does not say";
}

// The leader dies when it has told the others to halt. Pods wait for 40 s until somebody asks.
TEST_F(RelaunchTest, TimeInWhichNobodyLedDoesNotCountAsTimeInWhichPodsDidNotFollow) {
  Hold(kFirst, 137);
  Step();
  Hold(kSecond, 0);
  world_.Advance(seconds(35));
  Report();
  EXPECT_EQ(Step(),
            "tell pod mnist-worker-0: relaunch 1\n"
            "tell pod mnist-worker-1: relaunch 1\n");
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
  Start(kFirst, 1);
  Watch(kRelaunchPatience - seconds(4));
  EXPECT_EQ(world_.job.status.attempt, Attempt(0)) << "it has its whole time from there on";
  Watch(seconds(4));
  EXPECT_EQ(world_.job.status.attempt, Attempt(2));
  EXPECT_EQ(DescribeRestarts(world_.job.status), "killed=1 start_timeout=1");
}

TEST_F(RelaunchTest, LostPodTakesThePresentWay) {
  Hold(kFirst, 137);
  world_.Exit(kSecond, 137);
  Step();
  EXPECT_THAT(
      MessageOf(world_.job.status, ConditionType::kRestarting),
      testing::HasSubstr("; the gang gets new pods, because pod mnist-worker-1 no longer exists"));
  EXPECT_EQ(world_.job.status.attempt, Attempt(1));
  EXPECT_EQ(world_.job.status.relaunch.count, 0);
}

TEST_F(RelaunchTest, RuntimeThatDoesNotKnowItGetsANewPod) {
  Hold(kFirst, 137);
  world_.observed.reports[kSecond].document.relaunches.reset();
  Step();
  EXPECT_EQ(world_.job.status.attempt, Attempt(1));
}

// Whoever has asked for relaunches is told why there is none.
TEST_F(RelaunchTest, NewPodsComeWithTheReason) {
  const auto why = [this] {
    const std::string message = MessageOf(world_.job.status, ConditionType::kRestarting);
    const std::size_t at = message.find("new pods, because ");
    return at == std::string::npos ? message : message.substr(at);
  };
  world_.Exit(kSecond, 0);
  Hold(kFirst, 137);
  Step();
  EXPECT_EQ(why(), "new pods, because pod mnist-worker-1 has ended with exit code 0");
}

TEST_F(RelaunchTest, GangThatBreaksAgainSoonGetsNewPods) {
  LoseBoth();
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
  world_.Advance(seconds(5));
  Hold(kFirst, 137);
  Step();
  EXPECT_EQ(world_.job.status.attempt, Attempt(2));
  EXPECT_THAT(MessageOf(world_.job.status, ConditionType::kRestarting),
              testing::HasSubstr(
                  "; the gang gets new pods, because it failed again soon after its last start"));
  EXPECT_EQ(world_.job.status.incidents.size(), 2U);
}

TEST_F(RelaunchTest, GangThatWasSteadyIsRelaunchedAgain) {
  LoseBoth();
  world_.Advance(seconds(61));
  LoseBoth();
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
  EXPECT_EQ(world_.job.status.relaunch.count, 2);
  EXPECT_EQ(DescribeRestarts(world_.job.status), "killed=2");
}

TEST_F(RelaunchTest, BudgetThatIsUsedUpFailsTheJob) {
  world_.job.spec.run_policy.backoff_limit = 0;
  Hold(kFirst, 137);
  Step();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kFailed));
}

TEST_F(RelaunchTest, RankThatIsDoneMeanwhileCostsTheGangItsPods) {
  Hold(kFirst, 137);
  Step();
  world_.Exit(kSecond, 0);
  Step();
  EXPECT_EQ(world_.job.status.attempt, Attempt(2));
  EXPECT_EQ(DescribeRestarts(world_.job.status), "completed=1 killed=1") << "no time had run out";
  EXPECT_EQ(CountedIncidents(world_.job.status.incidents), 1) << "it did nothing wrong";
}

TEST_F(RelaunchTest, RankThatIsDoneBeforeAnybodyHasAskedItHasMissedNothing) {
  Hold(kFirst, 137);
  Hold(kSecond, 1);
  Step();
  Step();
  world_.Exit(kSecond, 0);
  Start(kFirst, 1);
  Step();
  Step();
  EXPECT_EQ(world_.job.status.attempt, Attempt(0));
  EXPECT_FALSE(world_.job.status.relaunch.since.has_value());
  EXPECT_EQ(world_.job.status.relaunch.count, 1);
}

TEST_F(RelaunchTest, WipedStatusLearnsOfRelaunchesFromPods) {
  LoseBoth();
  world_.job.status.relaunch = Relaunch();
  Step();
  EXPECT_EQ(world_.job.status.relaunch.count, 1);
}

TEST_F(RelaunchTest, StatusIsReadBackAsItWasWritten) {
  Hold(kFirst, 137);
  Step();
  std::vector<Error> errors;
  const TrainingJobStatus read = DecodeStatus(EncodeStatus(world_.job), "status", &errors);
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(read.relaunch, world_.job.status.relaunch);
  EXPECT_EQ(read.relaunch.count, 1);
}

TEST(RelaunchPolicy, OnlyRanksOfSupervisedCommandsThatMayRestart) {
  EXPECT_TRUE(MayRelaunch(MakeRelaunchJob(2).spec));
  EXPECT_FALSE(MayRelaunch(MakeCommandJob(2).spec)) << "nobody asks for it";
  TrainingJob job = MakeTrainingJob(2);
  job.spec.recovery.relaunch = true;
  EXPECT_FALSE(MayRelaunch(job.spec));
  job = MakeRelaunchJob(2);
  job.spec.strategy = Strategy::kHorovod;
  EXPECT_FALSE(MayRelaunch(job.spec));
  job = MakeRelaunchJob(2);
  job.spec.roles[0].supervise = false;
  EXPECT_FALSE(MayRelaunch(job.spec));
  job = MakeRelaunchJob(2);
  job.spec.roles[0].restart_policy = RestartPolicy::kNever;
  EXPECT_FALSE(MayRelaunch(job.spec));
  job = MakeRelaunchJob(2);
  AddRole(Role::kPs, 1, &job);
  EXPECT_FALSE(MayRelaunch(job.spec));
  job = MakeRelaunchJob(2);
  AddRole(Role::kEvaluator, 1, &job);
  EXPECT_TRUE(MayRelaunch(job.spec));
  EXPECT_FALSE(HoldsItsEnd(job.spec, Role::kEvaluator));
}

}  // namespace
}  // namespace lockstep::control
