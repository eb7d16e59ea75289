// What ends a built-in training: an exit 0 in its middle does not, the last words of one rank do.

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

class EndOfTrainingTest : public testing::Test {
 protected:
  EndOfTrainingTest() : world_(MakeTrainingJob(2)) {
    world_.Launch();
    world_.Advance(std::chrono::seconds(1));
    ReportAt(60);
  }

  void ReportAt(int64_t step) {
    world_.ReportAll();
    for (auto& [pod, report] : world_.observed.reports) {
      report.document.phase = Phase::kTraining;
      report.document.step = Step(step);
      report.document.steps_total = 100;
    }
    world_.Step();
  }

  // The pod exits 0 and its newest report is still known.
  void ExitWithoutAWord(const std::string& pod) {
    const RuntimeReport last = world_.observed.reports.at(pod);
    world_.Exit(pod, 0);
    world_.observed.reports[pod] = last;
  }

  void FinishInOrder(const std::string& pod) {
    ExitWithoutAWord(pod);
    TerminationMessage words;
    words.outcome = Outcome::kSuccess;
    words.samples = SampleCounts{};
    words.last_step = Step(100);
    words.result = TestResult{};
    world_.Find(pod)->status.termination->message = EncodeTerminationMessage(words);
  }

  std::string Told(const std::string& reason) {
    for (const Event& event : world_.Step().events) {
      if (event.reason == reason) {
        return event.message;
      }
    }
    return "";
  }

  bool HasSucceeded() const { return IsTrue(world_.job.status, ConditionType::kSucceeded); }

  TestWorld world_;
};

TEST_F(EndOfTrainingTest, ExitZeroInMidTrainingIsALossThatSurvivorsAreToldOf) {
  ExitWithoutAWord("mnist-worker-1");
  const Decision decision = world_.Step();

  EXPECT_EQ(EventReasons(decision), "PodReplaced");
  EXPECT_EQ(decision.events.at(0).message.find(
                "pod mnist-worker-1 (rank 1) ended with exit code 0 before the end of training"),
            0U)
      << decision.events.at(0).message;
  const std::string effects = DescribeEffects(decision);
  EXPECT_NE(effects.find("create pod mnist-worker-1-r1"), std::string::npos) << effects;
  EXPECT_NE(effects.find("mnist-worker-0"), std::string::npos) << "not told: " << effects;
}

TEST_F(EndOfTrainingTest, FirstRanksExitZeroInMidTrainingIsNotTheJobsSuccess) {
  ExitWithoutAWord("mnist-worker-0");
  EXPECT_NE(Told("PodReplaced"), "");
  EXPECT_FALSE(HasSucceeded());
}

// Nobody answers for a pod that has ended: whoever leads from then on has no report of it.
TEST_F(EndOfTrainingTest, ExitZeroInMidTrainingIsALossToTheNextLeaderToo) {
  world_.Exit("mnist-worker-0", 0);
  world_.observed.reports.clear();
  EXPECT_NE(Told("PodReplaced"), "");
  EXPECT_FALSE(HasSucceeded());
}

// One of Keras' callbacks stops the training, say, and the program has last words of its own.
TEST(EndOfACommand, ExitZeroIsSuccessWhateverStepsItHasToldOf) {
  TestWorld world(MakeCommandJob(1));
  world.Launch();
  world.Advance(std::chrono::seconds(1));
  world.ReportAll();
  StatusDocument& document = world.observed.reports.at("mnist-worker-0").document;
  document.step = Step(60);
  document.steps_total = 100;
  world.Step();
  const RuntimeReport last = world.observed.reports.at("mnist-worker-0");
  world.Exit("mnist-worker-0", 0);
  world.Find("mnist-worker-0")->status.termination->message = "stopped early\n";
  world.observed.reports["mnist-worker-0"] = last;
  world.Step();
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kSucceeded));
}

TEST_F(EndOfTrainingTest, LastWordsAreBelievedByTheNextLeaderWhateverTheStatusRemembers) {
  FinishInOrder("mnist-worker-0");
  FinishInOrder("mnist-worker-1");
  world_.observed.reports.clear();
  world_.Step();
  EXPECT_TRUE(HasSucceeded());
}

TEST_F(EndOfTrainingTest, LastWordsAreBelievedWhateverTheNewestReportSays) {
  FinishInOrder("mnist-worker-1");
  EXPECT_EQ(Told("PodReplaced"), "");
  FinishInOrder("mnist-worker-0");
  world_.Step();
  EXPECT_TRUE(HasSucceeded());
}

TEST_F(EndOfTrainingTest, RankLostAfterAnotherHasFinishedTakesNothingAway) {
  FinishInOrder("mnist-worker-1");
  world_.Step();
  EXPECT_FALSE(HasSucceeded()) << "the other has its last words to say";
  world_.Exit("mnist-worker-0", 137);
  world_.Step();
  EXPECT_TRUE(HasSucceeded());
  EXPECT_EQ(MessageOf(world_.job.status, ConditionType::kSucceeded),
            "training has finished, as reported by worker-1");
}

TEST_F(EndOfTrainingTest, SuccessorDoesNotWaitForThoseWhoHaveFinished) {
  world_.Exit("mnist-worker-0", 137);
  world_.Step();
  world_.RunAll();
  world_.Step();
  EXPECT_FALSE(HasSucceeded());
  FinishInOrder("mnist-worker-1");
  world_.Step();
  EXPECT_TRUE(HasSucceeded());
}

TEST_F(EndOfTrainingTest, RankThatWasToldOfTheEndDidNotTrainToIt) {
  world_.Exit("mnist-worker-0", 137);
  world_.Step();
  world_.RunAll();
  world_.Step();
  ExitWithoutAWord("mnist-worker-1");
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  words.reason = "the other ranks had finished the training";
  world_.Find("mnist-worker-1")->status.termination->message = EncodeTerminationMessage(words);
  world_.Step();
  EXPECT_FALSE(HasSucceeded());
}

class PsOfTrainingTest : public testing::TestWithParam<RestartPolicy> {
 protected:
  static TrainingJob Job() {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.strategy = Strategy::kParameterServer;
    AddRole(Role::kPs, 2, &job);
    job.spec.roles.back().restart_policy = GetParam();
    return job;
  }

  PsOfTrainingTest() : world_(Job()) {
    world_.Launch();
    world_.Advance(std::chrono::seconds(1));
    world_.ReportAll();
    world_.Step();
    world_.Exit("mnist-ps-1", 0);
  }

  TestWorld world_;
};

// The workers would wait for it.
TEST_P(PsOfTrainingTest, ExitZeroIsALossAsAPsNeverEndsByItself) {
  const Decision decision = world_.Step();
  const bool is_to_fail = GetParam() == RestartPolicy::kNever;
  ASSERT_FALSE(decision.events.empty());
  EXPECT_EQ(decision.events.at(0).reason, is_to_fail ? "PodFailed" : "PodReplaced");
  EXPECT_EQ(
      decision.events.at(0).message.find("pod mnist-ps-1 ended with exit code 0 before the end"),
      0U)
      << decision.events.at(0).message;
  const std::string effects = DescribeEffects(decision);
  EXPECT_EQ(effects.find("create pod mnist-ps-1-r1") == std::string::npos, is_to_fail) << effects;
  EXPECT_EQ(effects.find("create pod mnist-worker"), std::string::npos) << effects;
}

INSTANTIATE_TEST_SUITE_P(Policies,
                         PsOfTrainingTest,
                         testing::Values(RestartPolicy::kNever,
                                         RestartPolicy::kOnFailure,
                                         RestartPolicy::kAlways,
                                         RestartPolicy::kExitCode));

}  // namespace
}  // namespace lockstep::control
