#include <string>

#include <gtest/gtest.h>

#include "common/contract/status/termination_message.h"
#include "operator/cli/run/run_record.h"
#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

void Start(const TaskId& task, RunRecord* record) {
  PodEvent event;
  event.change = PodChange::kStarted;
  event.pod.name = "job-" + TaskName(task);
  event.pod.status.pid = 100;
  event.at = At(1000);
  record->OnPodEvent(event);
}

void Report(const std::string& pod, const TaskId& task, int64_t step, RunRecord* record) {
  StatusArrival arrival;
  arrival.document.pod = pod;
  arrival.document.phase = Phase::kTraining;
  arrival.document.task = task;
  arrival.document.step = Step(step);
  arrival.received = At(2900);
  record->OnReport(arrival);
}

void End(const TaskId& task, int64_t last_step, RunRecord* record) {
  TerminationMessage words;
  words.last_step = Step(last_step);
  PodEvent event;
  event.change = PodChange::kEnded;
  event.pod.name = "job-" + TaskName(task);
  event.pod.status.termination = kube::ContainerTermination{};
  event.pod.status.termination->exit_code = 143;
  event.pod.status.termination->message = EncodeTerminationMessage(words);
  event.at = At(3000);
  record->OnPodEvent(event);
}

RunRecord RecordOf(const ModelsOfPods& models) {
  RunRecord record({96, 2, At(1000), "/run", {}, models});
  Start(kWorker0, &record);
  Start(kWorker1, &record);
  return record;
}

// Reports are of a moment ago: a checkpoint of before the stop may be newer than they are.
TEST(Trained, OfAStopIsWhatThoseThatRanSayLast) {
  RunRecord record = RecordOf({});
  Report("job-worker-1", kWorker1, 100, &record);
  record.OnStop(false, At(3000));
  EXPECT_EQ(record.Trained(), (TrainedSteps{{std::nullopt, Step(100)}}));
  End(kWorker1, 107, &record);
  EXPECT_EQ(record.Trained(), (TrainedSteps{{std::nullopt, Step(107)}}));
}

// Both are killed, and the stop comes before a successor has taken up a checkpoint.
TEST(Trained, StepsOfALostGangAreLostWithIt) {
  RunRecord record = RecordOf({});
  Report("job-worker-0", kWorker0, 100, &record);
  Report("job-worker-0-r1", kWorker0, 0, &record);
  record.OnStop(true, At(3000));
  EXPECT_EQ(record.Trained(), (TrainedSteps{{std::nullopt, Step(100)}}));
  RunSummary summary;
  record.FillSummary(At(3000), &summary);
  EXPECT_EQ(summary.steps, 100);
}

TEST(Trained, GangThatGoesOnFromItsCheckpointStandsThere) {
  RunRecord record = RecordOf({});
  Report("job-worker-0", kWorker0, 100, &record);
  Report("job-worker-0-a1", kWorker0, 80, &record);
  record.OnStop(false, At(3000));
  End(kWorker0, 83, &record);
  EXPECT_EQ(record.Trained(), (TrainedSteps{{std::nullopt, Step(83)}}));
}

TEST(Trained, IsOfEachModel) {
  RunRecord record = RecordOf({{kWorker0, {0}}, {kWorker1, {1}}});
  Report("job-worker-0", kWorker0, 50, &record);
  Report("job-worker-1", kWorker1, 20, &record);
  record.OnStop(false, At(3000));
  EXPECT_EQ(record.Trained(), (TrainedSteps{{0, Step(50)}, {1, Step(20)}}));
}

TEST(Trained, OfACommandIsNotKnown) {
  RunRecord record({std::nullopt, 2, At(1000), "/run"});
  Report("job-worker-0", kWorker0, 50, &record);
  EXPECT_EQ(record.Trained(), TrainedSteps());
}

}  // namespace
}  // namespace lockstep::control
