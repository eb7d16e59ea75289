#include "operator/cli/summary/summary.h"

#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

RunSummary TrainedWithOneLoss() {
  RunSummary summary;
  summary.job = "mnist";
  summary.outcome = RunOutcome::kSucceeded;
  summary.is_training = true;
  summary.test_accuracy = 0.9655;
  summary.test_loss = 0.125;
  summary.loss = 0.0312;
  summary.steps = 750;
  summary.steps_total = 750;
  summary.samples_per_second = 4321.4;
  summary.samples = SampleCounts{72000, 72000, 0, 0};
  summary.restarts = {{"killed", 1}};
  Recovery recovery;
  recovery.cause = "killed";
  recovery.culprit = {Role::kWorker, 1};
  recovery.lost_pod = "mnist-worker-1";
  recovery.replacement_pod = "mnist-worker-1-r1";
  recovery.fault_at = At(1000);
  recovery.noticed_at = At(1010);
  recovery.next_step_at = At(1700);
  recovery.over_at = At(1700);
  recovery.parts = RecoveryParts{milliseconds(10),
                                 milliseconds(20),
                                 milliseconds(300),
                                 milliseconds(70),
                                 milliseconds(100),
                                 milliseconds(200)};
  summary.recoveries = {recovery};
  summary.elapsed = milliseconds(20'500);
  summary.time_lost = milliseconds(700);
  summary.run_directory = "/runs/a";
  summary.checkpoint_directory = "/runs/a/checkpoints";
  summary.last_checkpoint_step = Step(700);
  return summary;
}

TEST(FormatSummary, TrainingTellsFiguresRecoveriesAndPlaces) {
  EXPECT_EQ(FormatSummary(TrainedWithOneLoss()),
            "mnist succeeded after 20.50 s\n"
            "  steps         750 of 750, 4321 samples/s\n"
            "  training loss 0.0312\n"
            "  test accuracy 96.5 %, loss 0.1250\n"
            "  samples       72000 used, 0 lost, 0 repeated\n"
            "  restarts      1: killed 1\n"
            "                worker-1 (killed): training again after 0.70 s = detect 0.01 + "
            "spawn 0.02 + engine 0.30 + rendezvous 0.07 + state 0.10 + step 0.20\n"
            "  time lost     0.70 s of 20.50 s\n"
            "  logs          /runs/a/pods/*/pod.log\n"
            "  checkpoints   /runs/a/checkpoints, newest of step 700\n");
}

// No restart of a pod, and yet nothing was trained meanwhile.
TEST(FormatSummary, ProcessThatWasReplacedWithinItsPodIsCountedAsThat) {
  RunSummary summary = TrainedWithOneLoss();
  summary.restarts.clear();
  summary.recoveries[0].cause = kProcessLost;
  summary.recoveries[0].lost_rank = 3;
  summary.recoveries[0].parts.reset();
  EXPECT_THAT(FormatSummary(summary),
              ::testing::HasSubstr(
                  "  restarts      0; processes replaced within their pods: 1\n"
                  "                rank 3 in worker-1 (process lost): training again after 0.70 s\n"
                  "  time lost     0.70 s of 20.50 s\n"));
  EXPECT_EQ(EncodeSummary(summary)["recoveries"][0]["lostRank"], 3);
}

TEST(FormatSummary, FailedCommandTellsItsReasonAndNoTrainingFigures) {
  RunSummary summary;
  summary.job = "any";
  summary.outcome = RunOutcome::kFailed;
  summary.reason = "worker-0: exit code 3";
  summary.run_directory = "/runs/b";
  PodRecord lost;
  lost.task = {Role::kWorker, 0};
  lost.exit_code = 137;
  PodRecord last = lost;
  last.exit_code = 3;
  last.reason = "Error";
  last.message = "no such option";
  summary.pods = {lost, last};
  EXPECT_EQ(FormatSummary(summary),
            "any failed after 0.00 s: worker-0: exit code 3\n  worker-0      exit code 3: no such "
            "option\n  restarts      0\n  logs          /runs/b/pods/*/pod.log\n  to continue   "
            "fix the cause above, then lockstep run --resume /runs/b; the files in "
            "LOCKSTEP_CHECKPOINT_DIR are still there\n");
}

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormatSummary, RegressionHasATestLossAndNoAccuracy) {
  RunSummary summary = TrainedWithOneLoss();
  summary.test_accuracy.reset();
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("  test loss     0.1250\n"));
  EXPECT_THAT(text, Not(HasSubstr("accuracy")));
}

TEST(FormatSummary, PaceThatNobodyMeasuredIsLeftOut) {
  RunSummary summary = TrainedWithOneLoss();
  summary.samples_per_second = 0;
  EXPECT_THAT(FormatSummary(summary), HasSubstr("  steps         750 of 750\n"));
}

// Its program loads anew and repeats steps: nobody outside it knows what a loss cost.
TEST(Summary, CommandTellsHowLongItsGangWasBrokenAndNotWhatWasLost) {
  RunSummary summary = TrainedWithOneLoss();
  summary.is_training = false;
  EXPECT_THAT(FormatSummary(summary), HasSubstr("  gang broken   0.70 s of 20.50 s\n"));
  EXPECT_THAT(FormatSummary(summary), HasSubstr("  steps         750 of 750"));
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("time lost")));
  EXPECT_TRUE(EncodeSummary(summary)["timeLostSeconds"].is_null());
  EXPECT_EQ(EncodeSummary(summary)["gangBrokenSeconds"], 0.7);
  EXPECT_EQ(EncodeSummary(TrainedWithOneLoss())["timeLostSeconds"], 0.7);
  EXPECT_TRUE(EncodeSummary(TrainedWithOneLoss())["gangBrokenSeconds"].is_null());
}

TEST(FormatSummary, SamplesOfAnOlderReportAreSaidToBeThose) {
  RunSummary summary = TrainedWithOneLoss();
  summary.has_final_samples = false;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("0 repeated, counted to about 1 s before the end\n"));
}

TEST(FormatSummary, StoppedRunTellsHowToGoOn) {
  RunSummary summary = TrainedWithOneLoss();
  summary.outcome = RunOutcome::kStopped;
  EXPECT_THAT(FormatSummary(summary), HasSubstr("  to continue   lockstep run --resume /runs/a\n"));
  EXPECT_THAT(FormatSummary(TrainedWithOneLoss()), Not(HasSubstr("to continue")));
}

TEST(FormatSummary, StopWithoutACheckpointSaysThatThereIsNone) {
  RunSummary summary = TrainedWithOneLoss();
  summary.outcome = RunOutcome::kStopped;
  summary.last_checkpoint_step.reset();
  EXPECT_THAT(FormatSummary(summary), HasSubstr("/runs/a/checkpoints, which has no checkpoint\n"));
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  to continue   no checkpoint: the training is lost; lockstep run "
                        "--resume /runs/a starts at step 0\n"));
  summary.steps = 0;
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("is lost")));
}

TEST(FormatSummary, TryThatDidNotBeginSaysThatTheRunBeforeStands) {
  RunSummary summary = TrainedWithOneLoss();
  summary.outcome = RunOutcome::kFailed;
  summary.left_earlier_run = true;
  EXPECT_THAT(
      FormatSummary(summary),
      HasSubstr("lockstep run --resume /runs/a; this attempt did not change the earlier run\n"));
}

TEST(FormatSummary, WayOnCanBeCopiedIntoAShell) {
  RunSummary summary = TrainedWithOneLoss();
  summary.outcome = RunOutcome::kStopped;
  summary.run_directory = "/runs/Anna's two";
  EXPECT_THAT(FormatSummary(summary),
              ::testing::HasSubstr("lockstep run --resume '/runs/Anna'\\''s two'\n"));
}

TEST(FormatSummary, LogThatLacksLinesIsSaid) {
  RunSummary summary = TrainedWithOneLoss();
  summary.lost_log_lines = 7;
  EXPECT_THAT(FormatSummary(summary), HasSubstr("pod.log; 7 lines are missing in lockstep.log\n"));
}

TEST(FormatSummary, FailedAndSkippedCheckpointsAreCounted) {
  RunSummary summary = TrainedWithOneLoss();
  summary.checkpoints.failed = 3;
  summary.checkpoints.skipped = 2;
  summary.checkpoints.last_error = "No space left on device";
  EXPECT_THAT(
      FormatSummary(summary),
      HasSubstr("newest of step 700, 3 not written (No space left on device), 2 skipped\n"));
}

TEST(FormatSummary, RunOfAFinishedJobSaysThatNothingWasLeft) {
  RunSummary summary = TrainedWithOneLoss();
  summary.recoveries.clear();
  summary.checkpoints.restored_step = Step(750);
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  steps         750 of 750 before this run: nothing was left to train\n"));
  summary.checkpoints.restored_step = Step(700);
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("nothing was left")));
}

TEST(FormatSummary, JobThatWasMadeShorterHasMoreBehindItThanItAsksFor) {
  RunSummary summary = TrainedWithOneLoss();
  summary.recoveries.clear();
  summary.steps_total = 300;
  summary.checkpoints.restored_step = Step(750);
  EXPECT_THAT(
      FormatSummary(summary),
      HasSubstr("  steps         750 before this run, although the job asks for 300: nothing was "
                "left to train\n"));
}

TEST(FormatSummary, WhoHadNothingToTrainIsToldHowToAskForMore) {
  RunSummary summary = TrainedWithOneLoss();
  summary.recoveries.clear();
  summary.checkpoints.restored_step = Step(750);
  EXPECT_THAT(
      FormatSummary(summary),
      HasSubstr("  to continue   raise the number of steps: lockstep run --resume /runs/a --set "
                "spec.training.steps=N, N above 750\n"));
  summary.data_epochs_total = 2;  // steps beside epochs would be refused, and two were too few
  summary.data_epoch = 8;
  EXPECT_THAT(FormatSummary(summary), HasSubstr("spec.training.epochs=N, N above 8\n"));
}

// The run's folder keeps the manifest as it was.
TEST(FormatSummary, AfterAWrongManifestTheWayOnNamesTheFile) {
  RunSummary summary = TrainedWithOneLoss();
  summary.outcome = RunOutcome::kFailed;
  summary.run_directory = "/runs/a";
  summary.checkpoint_directory = "/runs/a/checkpoints";
  summary.pods.resize(1);
  summary.pods[0].exit_code = kExitUserError;
  const std::string way = "fix the cause above, then lockstep run --resume /runs/a";
  EXPECT_THAT(FormatSummary(summary), HasSubstr(way + "\n"));
  summary.manifest_file = "my jobs/a.yaml";
  EXPECT_THAT(FormatSummary(summary), HasSubstr(way + " 'my jobs/a.yaml'\n"));
  summary.manifest_changes = {"--set", "spec.training.seed=7", "--workers", "2"};
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr(way + " 'my jobs/a.yaml' --set spec.training.seed=7 --workers 2\n"));
  summary.manifest_changes.clear();
  summary.manifest_file = "-";
  EXPECT_THAT(FormatSummary(summary), HasSubstr(way + " FILE\n"));
  for (const int code : {kExitNotSaved, kExitDiverged, kExitCannotExecute, kExitNotFound}) {
    summary.pods[0].exit_code = code;
    EXPECT_THAT(FormatSummary(summary), HasSubstr(way)) << code;
  }
  summary.pods[0].exit_code = kExitRetryable;
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("FILE")));
  summary.left_earlier_run = true;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("--resume /runs/a FILE; this attempt did not change"));
}

TEST(FormatSummary, CheckpointsThatCannotBeReadAreNotCalledNone) {
  RunSummary summary = TrainedWithOneLoss();
  summary.outcome = RunOutcome::kFailed;
  summary.run_directory = "/runs/a";
  summary.checkpoint_directory = "/c";
  summary.last_checkpoint_step.reset();
  summary.checkpoints.is_unreadable = true;
  summary.checkpoints.last_error = "reading the checkpoints in /c: Permission denied";
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text,
              HasSubstr("/c, which cannot be read: reading the checkpoints in /c: Permission"));
  EXPECT_THAT(text, Not(HasSubstr("which has no checkpoint")));
  EXPECT_THAT(text, Not(HasSubstr("starts at step 0")));
}

TEST(FormatSummary, ChaosThatNeverFiredIsSaid) {
  RunSummary summary = TrainedWithOneLoss();
  summary.chaos_not_fired = {"kill=worker-1@step=6000"};
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  chaos         not injected: kill=worker-1@step=6000\n"));
}

TEST(EncodeSummary, HistoryHasEveryDataEpoch) {
  RunSummary summary;
  summary.history = {{0, 94, 9000, 0.5, 0.875, 1.25}, {1, 188, 9000, 0.5, 0.875, 1.25, {}, 8904}};
  EXPECT_EQ(DumpJson(EncodeSummary(summary)["history"]),
            R"([{"dataEpoch":0,"step":94,"sampleCount":9000,"loss":0.5,"accuracy":0.875,)"
            R"("seconds":1.25},)"
            R"({"dataEpoch":1,"step":188,"sampleCount":9000,"loss":0.5,"accuracy":0.875,)"
            R"("seconds":1.25,"lossSampleCount":8904}])");
}

TEST(EncodeSummary, KeysAreThoseOfTheManual) {
  const Json json = EncodeSummary(TrainedWithOneLoss());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys,
              ::testing::ElementsAre("job",
                                     "outcome",
                                     "reason",
                                     "testAccuracy",
                                     "testLoss",
                                     "loss",
                                     "models",
                                     "history",
                                     "steps",
                                     "stepsTotal",
                                     "stepsSkipped",
                                     "stepsRepeated",
                                     "samplesPerSecond",
                                     "samplesConsumed",
                                     "samplesExpected",
                                     "samplesLost",
                                     "samplesRepeated",
                                     "restarts",
                                     "recoveries",
                                     "pods",
                                     "elapsedSeconds",
                                     "timeLostSeconds",
                                     "gangBrokenSeconds",
                                     "runDirectory",
                                     "checkpointDirectory",
                                     "lastCheckpointStep",
                                     "restoredStep",
                                     "checkpointsFailed",
                                     "checkpointsSkipped",
                                     "checkpointError",
                                     "lostLogLines",
                                     "chaosNotFired"));
}

TEST(EncodeSummary, RecoveryCarriesItsParts) {
  EXPECT_EQ(DumpJson(EncodeSummary(TrainedWithOneLoss())["recoveries"][0]),
            R"({"cause":"killed","culprit":"worker-1","oneOf":[],"allOf":[],"lostRank":null,)"
            R"("relaunch":null,"lostPod":"mnist-worker-1",)"
            R"("replacementPod":"mnist-worker-1-r1","killToNextStepSeconds":0.7,)"
            R"("detectSeconds":0.01,"spawnSeconds":0.02,"engineLoadSeconds":0.3,)"
            R"("rendezvousSeconds":0.07,"stateSeconds":0.1,"stepSeconds":0.2})");
}

TEST(EncodeSummary, RecoveryThatMayBeOfSeveralNamesNone) {
  RunSummary summary = TrainedWithOneLoss();
  summary.recoveries[0].other_culprits = {{TaskId{Role::kWorker, 2}, "crash"}};
  const Json json = EncodeSummary(summary)["recoveries"][0];
  for (const char* const key : {"cause", "culprit", "lostPod", "replacementPod"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_EQ(DumpJson(json["oneOf"]),
            R"([{"culprit":"worker-1","cause":"killed"},{"culprit":"worker-2","cause":"crash"}])");
  EXPECT_EQ(DumpJson(json["allOf"]), "[]");
}

TEST(EncodeSummary, RecoveryOfAllThatWereKilledAtOnceNamesThem) {
  RunSummary summary = TrainedWithOneLoss();
  summary.recoveries[0].other_culprits = {{TaskId{Role::kWorker, 2}, "killed"}};
  summary.recoveries[0].all_within = std::chrono::milliseconds(3);
  const Json json = EncodeSummary(summary)["recoveries"][0];
  EXPECT_EQ(DumpJson(json["oneOf"]), "[]");
  EXPECT_EQ(DumpJson(json["allOf"]),
            R"([{"culprit":"worker-1","cause":"killed"},{"culprit":"worker-2","cause":"killed"}])");
}

TEST(FormatSummary, SuccessorThatCameAfterTheLastStepSaysSo) {
  RunSummary summary = TrainedWithOneLoss();
  summary.recoveries[0].over_at.reset();
  summary.recoveries[0].next_step_at.reset();
  summary.checkpoints.restored_step = Step(750);  // of this very run
  EXPECT_THAT(FormatSummary(summary), HasSubstr("worker-1 (killed): no step was left to train\n"));
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("before this run")));
  summary.outcome = RunOutcome::kFailed;
  EXPECT_THAT(FormatSummary(summary), HasSubstr("worker-1 (killed): not recovered\n"));
}

TEST(EncodeSummary, UnknownFiguresAreNull) {
  RunSummary summary;
  summary.test_loss = std::numeric_limits<double>::quiet_NaN();
  Recovery recovery;
  summary.recoveries = {recovery};
  const Json json = EncodeSummary(summary);
  EXPECT_TRUE(json["testAccuracy"].is_null());
  EXPECT_TRUE(json["testLoss"].is_null());
  EXPECT_TRUE(json["recoveries"][0]["killToNextStepSeconds"].is_null());
  EXPECT_TRUE(json["recoveries"][0]["spawnSeconds"].is_null());
  EXPECT_TRUE(json["samplesPerSecond"].is_null());
  EXPECT_TRUE(json["steps"].is_null()) << "of a command";
  summary.is_training = true;
  EXPECT_EQ(EncodeSummary(summary)["steps"], 0);
}

TEST(EncodeSummary, PodCarriesItsProcess) {
  RunSummary summary;
  PodRecord pod;
  pod.name = "mnist-worker-1-r1";
  pod.task = {Role::kWorker, 1};
  pod.incarnation = Incarnation(1);
  pod.pid = 4711;
  pod.exit_code = 0;
  pod.reason = "Completed";
  summary.pods = {pod};
  const Json json = EncodeSummary(summary)["pods"][0];
  EXPECT_EQ(json["name"], "mnist-worker-1-r1");
  EXPECT_EQ(json["role"], "worker");
  EXPECT_EQ(json["index"], 1);
  EXPECT_EQ(json["incarnation"], 1);
  EXPECT_EQ(json["pid"], 4711);
  EXPECT_EQ(json["exitCode"], 0);
}

struct OutcomeCase {
  RunOutcome outcome;
  const char* name;
  int exit_code;
};

class RunOutcomes : public ::testing::TestWithParam<OutcomeCase> {};

TEST_P(RunOutcomes, HaveNameAndExitCode) {
  EXPECT_EQ(RunOutcomeName(GetParam().outcome), GetParam().name);
  EXPECT_EQ(ExitCodeOf(GetParam().outcome), GetParam().exit_code);
}

INSTANTIATE_TEST_SUITE_P(Table,
                         RunOutcomes,
                         ::testing::Values(OutcomeCase{RunOutcome::kSucceeded, "succeeded", 0},
                                           OutcomeCase{RunOutcome::kFailed, "failed", 1},
                                           OutcomeCase{RunOutcome::kRefused, "refused", 3},
                                           OutcomeCase{RunOutcome::kStopped, "stopped", 130}));

}  // namespace
}  // namespace lockstep::control
