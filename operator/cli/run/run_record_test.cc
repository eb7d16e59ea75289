#include "operator/cli/run/run_record.h"

#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "common/contract/status/termination_message.h"
#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

PodEvent Started(const std::string& name, int64_t pid, int64_t when_ms) {
  PodEvent event;
  event.change = PodChange::kStarted;
  event.pod.name = name;
  event.pod.status.pid = pid;
  event.at = At(when_ms);
  return event;
}

PodEvent Ended(const std::string& name,
               int exit_code,
               const std::string& message,
               int64_t when_ms) {
  PodEvent event;
  event.change = PodChange::kEnded;
  event.pod.name = name;
  event.pod.status.termination = kube::ContainerTermination{};
  event.pod.status.termination->exit_code = exit_code;
  event.pod.status.termination->message = message;
  event.at = At(when_ms);
  return event;
}

StatusArrival Reported(const TaskId& task, int64_t step, int64_t when_ms) {
  StatusArrival arrival;
  arrival.document.pod = "job-" + TaskName(task);
  arrival.document.task = task;
  arrival.document.step = Step(step);
  arrival.received = At(when_ms);
  return arrival;
}

class RunRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    record_.OnPodEvent(Started("job-worker-0", 100, 1000));
    record_.OnPodEvent(Started("job-worker-1", 101, 1001));
  }

  RunSummary Summary() {
    RunSummary summary;
    record_.FillSummary(At(9000), &summary);
    return summary;
  }

  RunRecord record_{RunRecordOptions{10, 2, At(1000), "/run", {{Step(40), "", {}}}}};
};

TEST_F(RunRecordTest, EveryPodHasTheAddressOfItsMetrics) {
  PodEvent started = Started("job-worker-2", 103, 1002);
  started.pod.status.pod_ip = "127.83.7.3";
  started.pod.spec.container.env["LOCKSTEP_STATUS_PORT"] = "12033";
  record_.OnPodEvent(started);
  EXPECT_EQ(Summary().pods.back().metrics, "http://127.83.7.3:12033/metrics");
}

TEST_F(RunRecordTest, HistoryComesFromReportsAndFromLastWords) {
  StatusArrival arrival = Reported(kWorker0, 94, 3000);
  arrival.document.history = {{0, 94, 9000, 0.5, 0.875, 1.25}};
  record_.OnReport(arrival);
  TerminationMessage message;
  message.outcome = Outcome::kSuccess;
  message.history = {{0, 94, 9000, 0.5, 0.875, 1.25}, {1, 188, 9000, 0.25, 0.9, 1.25}};
  record_.OnPodEvent(Ended("job-worker-0", 0, EncodeTerminationMessage(message), 4000));
  ASSERT_EQ(Summary().history.size(), 2U);
  EXPECT_EQ(Summary().history[1].loss, 0.25);
}

TEST(RunRecordOfModels, HistoryIsThatOfTheFirstModelWhoeverIsFarther) {
  RunRecord record({10, 2, At(1000), "/run", {}, {{kWorker0, {0}}, {kWorker1, {1}}}});
  StatusArrival second = Reported(kWorker1, 188, 2000);
  second.document.history = {{0, 94, 9000, 0.75, {}, 1}, {1, 188, 9000, 0.5, {}, 1}};
  record.OnReport(second);
  StatusArrival first = Reported(kWorker0, 94, 2001);
  first.document.history = {{0, 94, 9000, 0.25, {}, 1}};
  record.OnReport(first);
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  words.history = {{1, 188, 9000, 0.5, {}, 1}};
  record.OnPodEvent(Started("job-worker-1", 101, 1000));
  record.OnPodEvent(Ended("job-worker-1", 0, EncodeTerminationMessage(words), 4000));
  RunSummary summary;
  record.FillSummary(At(9000), &summary);
  EXPECT_EQ(summary.history, first.document.history);
}

// The last pod to end speaks of the shorter model.
TEST(RunRecordOfModels, FiguresOfTheJobAreOfOneModelWhoeverSpeaksLast) {
  RunRecord record({10, 2, At(1000), "/run", {}, {{kWorker0, {0}}, {kWorker1, {1}}}});
  record.OnPodEvent(Started("job-worker-0", 100, 1000));
  record.OnPodEvent(Started("job-worker-1", 101, 1000));
  TerminationMessage words;
  words.last_step = Step(4);
  words.steps_total = 4;
  words.steps_skipped = 1;
  words.training_loss = 0.5;
  words.samples = SampleCounts{40, 40, 0, 0};
  record.OnPodEvent(Ended("job-worker-0", 143, EncodeTerminationMessage(words), 4000));
  words.last_step = Step(1);
  words.steps_total = 2;
  words.steps_skipped.reset();
  words.training_loss = 0.25;
  record.OnPodEvent(Ended("job-worker-1", 143, EncodeTerminationMessage(words), 4001));
  RunSummary summary;
  record.FillSummary(At(9000), &summary);
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.steps_total, 4);
  EXPECT_EQ(summary.steps_skipped, 1);
  EXPECT_EQ(summary.loss, 0.375);
  ASSERT_EQ(summary.models.size(), 2U);
  EXPECT_EQ(summary.models[1].step, Step(1));
  EXPECT_EQ(summary.models[1].steps_total, 2);
  EXPECT_EQ(summary.samples, (SampleCounts{80, 80, 0, 0}));
}

// A failed job: one model is at a step, of another a result is known.
TEST(RunRecordOfModels, LossOfOneIsNotToldBesideTheTestOfAnother) {
  RunRecord record({10, 2, At(1000), "/run", {}, {{kWorker0, {0}}, {kWorker1, {1}}}});
  record.OnPodEvent(Started("job-worker-1", 101, 1000));
  StatusArrival killed = Reported(kWorker0, 94, 2000);
  killed.document.loss = 0.75;
  record.OnReport(killed);
  TerminationMessage words;
  words.last_step = Step(90);
  words.samples = SampleCounts{900, 900, 0, 0};
  words.training_loss = 0.5;
  words.result = TestResult{0.25, 0.9375};
  record.OnPodEvent(Ended("job-worker-1", 1, EncodeTerminationMessage(words), 4000));
  RunSummary summary;
  record.FillSummary(At(9000), &summary);
  EXPECT_EQ(summary.loss, std::nullopt);
  EXPECT_EQ(summary.test_loss, std::nullopt);
  EXPECT_EQ(summary.test_accuracy, std::nullopt);
  ASSERT_EQ(summary.models.size(), 2U);
  EXPECT_FALSE(summary.models[0].result.has_value());
  EXPECT_EQ(summary.models[1].result, (ModelResult{0.5, 0.25, 0.9375}));
}

TEST_F(RunRecordTest, CheckpointsAreKnownThoughNoReportMetThem) {
  TerminationMessage message;
  message.outcome = Outcome::kSuccess;
  message.checkpoints = CheckpointStatus{3, 1, 2, "No space left on device", Step(40)};
  record_.OnPodEvent(Ended("job-worker-0", 0, EncodeTerminationMessage(message), 4000));
  const RunSummary summary = Summary();
  EXPECT_EQ(summary.checkpoints.restored_step, Step(40));
  EXPECT_EQ(summary.checkpoints.failed, 1);
  EXPECT_EQ(summary.checkpoints.skipped, 2);
  EXPECT_EQ(record_.checkpoints().TakeRemarks().size(), 3U);
}

TEST_F(RunRecordTest, ModelThatCouldNotBeSavedIsRemembered) {
  EXPECT_FALSE(record_.has_unsaved_model());
  record_.OnPodEvent(Ended("job-worker-0", kExitNotSaved, "", 4000));
  EXPECT_TRUE(record_.has_unsaved_model());
}

// Whoever is asked to stop before it hears signals is ended by them, and has tried nothing.
TEST_F(RunRecordTest, NoWordIsLeftByWhoeverEndsByItselfWithoutOne) {
  const int stopped = kExitSignalBase + SIGTERM;
  PodEvent killed = Ended("job-worker-0", stopped, "", 4000);
  killed.pod.status.termination->signal = SIGTERM;
  record_.OnPodEvent(killed);
  record_.OnPodEvent(Ended("job-worker-1", stopped, "newest line of the log", 4000));
  const RunSummary summary = Summary();
  EXPECT_FALSE(summary.pods[0].left_no_word);
  EXPECT_TRUE(summary.pods[1].left_no_word);
}

TEST_F(RunRecordTest, CheckpointThatFailedAtTheStopIsAnUnsavedModel) {
  TerminationMessage message;
  message.outcome = Outcome::kRetryable;
  message.checkpoints = CheckpointStatus{1, 1, 0, "No space left on device", std::nullopt};
  record_.OnPodEvent(
      Ended("job-worker-0", kExitSignalBase + SIGTERM, EncodeTerminationMessage(message), 4000));
  EXPECT_TRUE(record_.has_unsaved_model());
}

TEST_F(RunRecordTest, CheckpointWrittenAfterOneThatFailedLeavesNothingUnsaved) {
  TerminationMessage message;
  message.outcome = Outcome::kRetryable;
  message.checkpoints = CheckpointStatus{2, 1, 0, "", std::nullopt};
  record_.OnPodEvent(
      Ended("job-worker-0", kExitPreempted, EncodeTerminationMessage(message), 4000));
  EXPECT_FALSE(record_.has_unsaved_model());
}

TEST_F(RunRecordTest, EndThatIsReplacedIsARecovery) {
  record_.OnPodEvent(Ended("job-worker-1", 137, "", 2000));
  EXPECT_TRUE(record_.is_recovering());
  record_.OnPodEvent(Started("job-worker-1-r1", 102, 2010));
  const RunSummary summary = Summary();
  ASSERT_EQ(summary.recoveries.size(), 1U);
  EXPECT_EQ(summary.recoveries[0].culprit, kWorker1);
  EXPECT_EQ(summary.recoveries[0].noticed_at, At(2000));
  ASSERT_EQ(summary.pods.size(), 3U);
  EXPECT_EQ(summary.pods[2].incarnation, Incarnation(1));
}

TEST_F(RunRecordTest, ExitZeroInMidTrainingThatIsReplacedIsARecovery) {
  record_.OnPodEvent(Ended("job-worker-1", 0, "", 2000));
  record_.OnPodEvent(Started("job-worker-1-r1", 102, 2010));
  const RunSummary summary = Summary();
  ASSERT_EQ(summary.recoveries.size(), 1U);
  EXPECT_EQ(summary.recoveries[0].culprit, kWorker1);
  EXPECT_EQ(summary.recoveries[0].cause, "unknown");
  EXPECT_EQ(summary.recoveries[0].fault_at, At(2000));
}

TEST_F(RunRecordTest, RankThatHasFinishedIsNoLossThoughItsGangStartsAnew) {
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  record_.OnPodEvent(Ended("job-worker-1", 0, EncodeTerminationMessage(words), 2000));
  record_.OnPodEvent(Started("job-worker-1-a1", 102, 2010));
  EXPECT_TRUE(Summary().recoveries.empty());
}

TEST_F(RunRecordTest, EndThatEndsTheJobIsNoRecovery) {
  record_.OnPodEvent(Ended("job-worker-1", 3, "", 2000));
  EXPECT_TRUE(Summary().recoveries.empty());
}

TEST_F(RunRecordTest, PodThatWasGivenUpCarriesItsCause) {
  kube::Pod pod;
  pod.name = "job-worker-1";
  record_.OnGivenUp(pod, "hang", At(2000));
  record_.OnPodEvent(Started("job-worker-1-r1", 102, 2010));
  EXPECT_EQ(Summary().recoveries.at(0).cause, "hang");
}

TEST_F(RunRecordTest, TimeIsLostUpToTheStopOfARunThatWasStartingAnew) {
  RunRecord record(RunRecordOptions{std::nullopt, 2, At(1000), "/run"});
  record.OnPodEvent(Started("job-worker-0", 100, 1000));
  StatusArrival held = Reported(kWorker1, 0, 3000);
  held.document.relaunches = 0;
  held.document.held = HeldEnd{137, 9, 1.0, ""};
  record.OnReport(held);
  RunSummary summary;
  record.FillSummary(At(9000), &summary);
  EXPECT_TRUE(summary.recoveries.empty()) << "it may be the end of the job";
  record.OnStop(true, At(5000));
  record.FillSummary(At(9000), &summary);
  ASSERT_EQ(summary.recoveries.size(), 1U);
  EXPECT_EQ(summary.time_lost, milliseconds(3000));
}

// One of the others tells it in its grace.
TEST_F(RunRecordTest, TrainingThatIsStoppedDoesNotGoOnFromItsCheckpoint) {
  record_.OnStop(false, At(3000));
  StatusArrival arrival = Reported(kWorker0, 20, 3100);
  arrival.document.checkpoints.restored_step = Step(40);
  record_.OnReport(arrival);
  const std::vector<CheckpointRemark> remarks = record_.checkpoints().TakeRemarks();
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0].text, "training resumed from the checkpoint of step 40");
}

TEST_F(RunRecordTest, LossThatNobodyMakesGoodIsNoRecoveryOfARunThatIsStopped) {
  record_.OnPodEvent(Ended("job-worker-1", 3, "", 2000));
  record_.OnStop(false, At(3000));
  EXPECT_TRUE(Summary().recoveries.empty());
}

// A hang is noticed after five seconds of silence, and nothing was trained in them.
TEST_F(RunRecordTest, HangCostsTimeSinceThePodWasHeardLast) {
  RunRecord record(RunRecordOptions{std::nullopt, 2, At(1000), "/run"});
  record.OnPodEvent(Started("job-worker-0", 100, 1000));
  record.OnPodEvent(Started("job-worker-1", 101, 1000));
  record.OnReport(Reported(kWorker1, 0, 2000));
  kube::Pod pod;
  pod.name = "job-worker-1";
  record.OnGivenUp(pod, "hang", At(7000));
  record.OnPodEvent(Started("job-worker-0-a1", 102, 7500));
  record.OnPodEvent(Started("job-worker-1-a1", 103, 7600));
  RunSummary summary;
  record.FillSummary(At(9000), &summary);
  EXPECT_EQ(summary.time_lost, milliseconds(5600));
}

// The pod ends seconds after the process in it that failed: its runtime tells of that one.
TEST_F(RunRecordTest, FailureBeginsWhenThePodsRuntimeBeginsToStop) {
  RunRecord record(RunRecordOptions{std::nullopt, 2, At(1000), "/run"});
  record.OnPodEvent(Started("job-worker-0", 100, 1000));
  record.OnPodEvent(Started("job-worker-1", 101, 1000));
  StatusArrival stopping = Reported(kWorker1, 0, 3000);
  stopping.document.phase = Phase::kStopping;
  record.OnReport(stopping);
  stopping.received = At(3500);
  record.OnReport(stopping);
  record.OnPodEvent(Ended("job-worker-1", 137, "", 6400));
  record.OnPodEvent(Started("job-worker-0-a1", 102, 6450));
  record.OnPodEvent(Started("job-worker-1-a1", 103, 6460));
  RunSummary summary;
  record.FillSummary(At(9000), &summary);
  EXPECT_EQ(summary.time_lost, milliseconds(3460));
}

// 68 of 188 steps, with a long break before them, are no pace to tell an end by.
TEST_F(RunRecordTest, PaceBeginsAnewWhereTrainingGoesBackToACheckpoint) {
  const auto pace = [this] {
    Progress progress;
    record_.FillProgress(&progress);
    return std::pair(progress.steps_done, progress.elapsed);
  };
  record_.OnReport(Reported(kWorker0, 10, 2000));
  record_.OnReport(Reported(kWorker1, 60, 3000));
  record_.OnReport(Reported(kWorker0, 59, 3000));  // a rank may be told of a little later
  EXPECT_EQ(pace(), std::pair(int64_t{50}, Duration(milliseconds(1000))));
  record_.OnReport(Reported(kWorker1, 0, 8000));  // a successor
  EXPECT_EQ(pace().first, 50);
  record_.OnReport(Reported(kWorker1, 40, 9000));
  EXPECT_EQ(pace().first, 0);
  record_.OnReport(Reported(kWorker0, 44, 9100));
  record_.OnReport(Reported(kWorker1, 50, 9200));
  EXPECT_EQ(pace(), std::pair(int64_t{10}, Duration(milliseconds(200))));
}

TEST_F(RunRecordTest, SamplesWithoutLastWordsAreAsOfAnOlderReport) {
  StatusArrival arrival = Reported(kWorker0, 77, 3000);
  arrival.document.samples = {770, 770, 0, 0};
  record_.OnReport(arrival);
  EXPECT_FALSE(Summary().has_final_samples);
  TerminationMessage message;
  message.samples = SampleCounts{960, 960, 0, 0};
  record_.OnPodEvent(Ended("job-worker-0", 0, EncodeTerminationMessage(message), 4000));
  EXPECT_TRUE(Summary().has_final_samples);
}

TEST_F(RunRecordTest, WhoEndedWellIsKnownByName) {
  EXPECT_TRUE(record_.Succeeded().empty());
  record_.OnPodEvent(Ended("job-worker-1", 0, "", 4000));
  record_.OnPodEvent(Ended("job-worker-0", 1, "", 4001));
  EXPECT_EQ(record_.Succeeded(), std::vector<std::string>{"job-worker-1"});
}

TEST_F(RunRecordTest, LastWordsOutliveTheStatusDocument) {
  StatusArrival last_poll = Reported(kWorker0, 90, 3000);
  last_poll.document.loss = 0.5;
  last_poll.document.steps_skipped = 2;
  record_.OnReport(last_poll);
  EXPECT_EQ(Summary().steps_skipped, 2);
  TerminationMessage message;
  message.steps_skipped = 3;
  message.outcome = Outcome::kSuccess;
  message.last_step = Step(100);
  message.last_checkpoint_step = Step(100);
  message.samples = SampleCounts{800, 800, 0, 0};
  message.result = TestResult{0.1, 0.97};
  message.training_loss = 0.25;
  message.steps_total = 100;
  message.data_epoch = 3;
  record_.OnPodEvent(Ended("job-worker-0", 0, EncodeTerminationMessage(message), 4000));
  const RunSummary summary = Summary();
  EXPECT_EQ(summary.steps, 100);
  EXPECT_EQ(summary.steps_total, 100);
  EXPECT_EQ(summary.steps_skipped, 3);
  EXPECT_EQ(summary.data_epoch, 3);
  EXPECT_EQ(summary.loss, 0.25);
  EXPECT_EQ(summary.test_accuracy, 0.97);
  ASSERT_TRUE(summary.samples.has_value());
  EXPECT_EQ(summary.samples->consumed, 800);
  EXPECT_EQ(summary.last_checkpoint_step, Step(100));
}

// With terminateOnNaN false; the last report with a loss may be of a step before.
TEST_F(RunRecordTest, LossThatIsNoNumberAnyMoreTakesTheOneBefore) {
  StatusArrival arrival = Reported(kWorker0, 90, 3000);
  arrival.document.loss = 0.5;
  record_.OnReport(arrival);
  TerminationMessage message;
  message.outcome = Outcome::kSuccess;
  message.history = {{0, 100, 800, std::nullopt, 0.1, 1.25}};
  record_.OnPodEvent(Ended("job-worker-0", 0, EncodeTerminationMessage(message), 4000));
  EXPECT_EQ(Summary().loss, std::nullopt);
}

TEST_F(RunRecordTest, StepWithoutALossHasDivergedAndAStateWithoutAStepHasNot) {
  const auto has_diverged = [this] {
    Progress progress;
    record_.FillProgress(&progress);
    return progress.has_diverged;
  };
  record_.OnReport(Reported(kWorker0, 40, 2000));
  EXPECT_FALSE(has_diverged()) << "restored";
  StatusArrival arrival = Reported(kWorker0, 41, 3000);
  arrival.document.step_phase_seconds.compute = 0.01;
  record_.OnReport(arrival);
  EXPECT_TRUE(has_diverged());
}

TEST_F(RunRecordTest, PaceIsThatOfThisRunWhateverStepItResumedFrom) {
  record_.OnReport(Reported(kWorker0, 500, 2000));
  record_.OnReport(Reported(kWorker1, 499, 2050));
  record_.OnReport(Reported(kWorker0, 600, 4000));
  EXPECT_DOUBLE_EQ(Summary().samples_per_second, 100 * 10 / 2.0);
  Progress progress;
  record_.FillProgress(&progress);
  EXPECT_EQ(progress.steps_done, 100);
  EXPECT_EQ(progress.elapsed, milliseconds(2000));
}

// Of 9000 samples in batches of 8999 each other batch has one.
TEST_F(RunRecordTest, PaceIsOfTheSamplesReallyUsed) {
  const auto report = [this](int64_t step, int64_t consumed, int64_t when_ms) {
    StatusArrival arrival = Reported(kWorker0, step, when_ms);
    arrival.document.samples.consumed = consumed;
    record_.OnReport(arrival);
  };
  report(2, 20, 2000);
  report(6, 60 - 18, 4000);
  EXPECT_DOUBLE_EQ(Summary().samples_per_second, 11.0);
}

// A report that comes late by a tenth of a second makes a run of a moment ten times as fast.
TEST_F(RunRecordTest, PaceOfReportsThatAreCloseTogetherIsThatOfTheHistory) {
  StatusArrival arrival = Reported(kWorker0, 500, 2000);
  record_.OnReport(arrival);
  arrival = Reported(kWorker0, 600, 2999);
  record_.OnReport(arrival);
  EXPECT_EQ(Summary().samples_per_second, 0);
  arrival.document.history = {{0, 550, 500, 0.5, {}, 1.0}, {1, 600, 500, 0.5, {}, 0.5, 250}};
  record_.OnReport(arrival);
  EXPECT_DOUBLE_EQ(Summary().samples_per_second, 750 / 1.5);
}

TEST_F(RunRecordTest, SamplesThatNobodyCountedAreUnknown) {
  record_.OnReport(Reported(kWorker0, 500, 2000));
  EXPECT_FALSE(Summary().samples.has_value());
}

TEST_F(RunRecordTest, FreeTextAsLastWordsGivesItsLastLine) {
  record_.OnPodEvent(Ended("job-worker-0", 1, "Traceback\nValueError: x\n", 4000));
  EXPECT_EQ(Summary().pods[0].message, "ValueError: x");
}

TEST_F(RunRecordTest, LastLineOfGoodNewsIsNoReason) {
  record_.OnPodEvent(Ended("job-worker-0", 3, "2026-11-23T15:54:38.123Z info  met\n", 4000));
  EXPECT_EQ(Summary().pods[0].message, "");
}

TEST_F(RunRecordTest, HighestStepLeads) {
  record_.OnReport(Reported(kWorker1, 8, 3000));
  record_.OnReport(Reported(kWorker0, 7, 3001));
  ASSERT_NE(record_.Leading(), nullptr);
  EXPECT_EQ(record_.Leading()->step, Step(8));
}

TEST_F(RunRecordTest, ChaosSeesTheCurrentPodsOnly) {
  record_.OnPodEvent(Ended("job-worker-1", 137, "", 2000));
  record_.OnReport(Reported(kWorker1, 8, 2001));
  const ChaosView view = record_.ViewForChaos(2, At(2002));
  EXPECT_EQ(view.running_tasks, std::set<TaskId>{kWorker0});
  EXPECT_FALSE(view.phases.contains(kWorker1));
  EXPECT_LT(view.running, Duration::zero());
  EXPECT_EQ(view.step, 8);
}

TEST_F(RunRecordTest, ChaosClockStartsWhenAllRun) {
  record_.ViewForChaos(2, At(1500));
  EXPECT_EQ(record_.ViewForChaos(2, At(1700)).running, milliseconds(200));
}

}  // namespace
}  // namespace lockstep::control
