#include "operator/cli/run_folder/model_records.h"

#include <gtest/gtest.h>

#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

ModelsOfPods TwoModels() {
  return {{kWorker0, {0}}, {kWorker1, {1}}};
}

ModelsOfPods TwoProcessesEach() {
  return {{kWorker0, {0, 1}}, {kWorker1, {2, 3}}};
}

StatusDocument ReportOf(const std::string& pod, int64_t step, int64_t steps_total) {
  StatusDocument document;
  document.pod = pod;
  document.task = ParsePodName(pod)->task;
  document.phase = Phase::kTraining;
  document.step = Step(step);
  document.steps_total = steps_total;
  document.timeline = {{TimelineEventKind::kStateReady, Epoch(1), Step(), std::nullopt, 1}};
  return document;
}

// Last words of a process that stands at `step`.
TerminationMessage Words(int64_t step, int64_t steps_total, std::optional<double> loss) {
  TerminationMessage words;
  words.last_step = Step(step);
  words.steps_total = steps_total;
  words.training_loss = loss;
  words.samples = SampleCounts{10 * step, 10 * step, 0, 0};
  return words;
}

// Of samples that do not divide evenly some models have a step more in each data epoch.
TEST(ModelRecords, StepsAndTheirTotalAreOfOneModel) {
  ModelRecords records(TwoModels());
  records.NoteLastWords("job-worker-0", Words(4, 4, 0.5));
  records.NoteLastWords("job-worker-1", Words(2, 2, 0.25));
  const ModelsOfRun all = records.Sum();
  const ModelRecord* const furthest = Furthest(all.by_rank);
  ASSERT_NE(furthest, nullptr);
  EXPECT_EQ(furthest->rank, 0);
  EXPECT_EQ(furthest->steps_total, 4);
  EXPECT_EQ(all.by_rank[1].step, Step(2));
  EXPECT_EQ(all.by_rank[1].steps_total, 2);
  EXPECT_FALSE(AreEquallyFar(all.by_rank));
}

// Each has its own number of steps, whichever is the furthest.
TEST(ModelRecords, ProcessesOfAPodAreDoneAtStepsOfTheirOwn) {
  ModelRecords records(TwoProcessesEach());
  StatusDocument pod = ReportOf("job-worker-0", 4, 4);
  pod.models = {{0, Incarnation(), Step(), Step(4), std::nullopt, 4},
                {1, Incarnation(), Step(), Step(2), std::nullopt, 2}};
  records.Report(pod);
  const ModelsOfRun all = records.Sum();
  EXPECT_EQ(all.by_rank[0].steps_total, 4);
  EXPECT_EQ(all.by_rank[1].steps_total, 2);
}

ModelRecord ModelAt(int64_t rank, std::optional<Step> step, int64_t steps_total) {
  ModelRecord model;
  model.rank = rank;
  model.step = step;
  model.steps_total = steps_total;
  return model;
}

TEST(Furthest, OfSeveralAtOneStepItIsOneThatIsNotDone) {
  EXPECT_EQ(Furthest({}), nullptr);
  EXPECT_EQ(Furthest({ModelAt(0, std::nullopt, 9)}), nullptr);
  const std::vector<ModelRecord> models = {
      ModelAt(0, Step(3), 4), ModelAt(1, Step(2), 9), ModelAt(2, Step(3), 3)};
  EXPECT_EQ(Furthest(models), &models[0]);
}

// One is killed, another is tested, and what both come to nobody knows.
TEST(ModelRecords, EachHasItsOwnFiguresAndTheMeanOfSomeIsNone) {
  ModelRecords records(TwoModels());
  StatusDocument killed = ReportOf("job-worker-0", 90, 100);
  killed.loss = 0.75;
  records.Report(killed);
  TerminationMessage tested = Words(100, 100, 0.25);
  tested.result = TestResult{0.125, 0.9375};
  records.NoteLastWords("job-worker-1", tested);
  const ModelsOfRun all = records.Sum();
  ASSERT_EQ(all.by_rank.size(), 2U);
  EXPECT_EQ(all.by_rank[0].step, Step(90));
  EXPECT_FALSE(all.by_rank[0].result.has_value());
  EXPECT_EQ(all.by_rank[1].result, (ModelResult{0.25, 0.125, 0.9375}));
  EXPECT_EQ(all.training_loss, std::nullopt);
  EXPECT_EQ(all.test_loss, std::nullopt);
  EXPECT_EQ(all.test_accuracy, std::nullopt);
}

TEST(ModelRecords, MeansAreOverAllThatSaidWhatTheyCameTo) {
  ModelRecords records(TwoModels());
  records.NoteLastWords("job-worker-0", Words(80, 100, 0.5));
  EXPECT_EQ(records.Sum().training_loss, std::nullopt);
  records.NoteLastWords("job-worker-1", Words(90, 100, 0.25));
  EXPECT_EQ(records.Sum().training_loss, 0.375);
  EXPECT_EQ(records.Sum().test_loss, std::nullopt) << "neither was tested";
}

TEST(ModelRecords, ModelOfWhichNobodyToldIsUnknown) {
  ModelRecords records(TwoModels());
  records.NoteLastWords("job-worker-0", TerminationMessage());  // it never held a state
  const ModelsOfRun all = records.Sum();
  ASSERT_EQ(all.by_rank.size(), 2U);
  EXPECT_EQ(all.by_rank[0], ModelRecord());
  EXPECT_EQ(Furthest(all.by_rank), nullptr);
  EXPECT_EQ(all.uncounted, 2);
  EXPECT_FALSE(all.samples.has_value());
}

TEST(ModelRecords, WhatAnEarlierProcessCameToIsNotWhatItsSuccessorDoes) {
  ModelRecords records(TwoModels());
  records.NoteLastWords("job-worker-0", Words(80, 100, 0.5));
  records.Report(ReportOf("job-worker-0", 79, 100));  // it comes late
  EXPECT_EQ(records.Sum().by_rank[0].step, Step(80));
  StatusDocument successor = ReportOf("job-worker-0-r1", 0, 100);
  successor.phase = Phase::kRestoring;
  records.Report(successor);
  EXPECT_EQ(records.Sum().by_rank[0].step, Step(80)) << "it holds no state yet";
  records.Report(ReportOf("job-worker-0-r1", 60, 100));
  EXPECT_EQ(records.Sum().by_rank[0].step, Step(60));
  EXPECT_FALSE(records.Sum().by_rank[0].result.has_value());
  records.NoteLastWords("job-worker-0", Words(80, 100, 0.5));
  EXPECT_EQ(records.Sum().by_rank[0].step, Step(60));
}

TEST(ModelRecords, WhoKnowsAllModelsHasTheLastWord) {
  ModelRecords records(TwoModels());
  records.Report(ReportOf("job-worker-0", 3, 4));
  TerminationMessage all_know = Words(2, 2, 0.25);
  all_know.samples = SampleCounts{1600, 1600, 0, 0};
  all_know.result = TestResult{0.1, 0.97, {{0.5, 0.2, 0.96}, {0.0, 0.0, 0.98}}};
  records.NoteLastWords("job-worker-1", all_know);
  TerminationMessage came_late = Words(4, 4, 0.5);
  came_late.result = TestResult{0.2, 0.96};
  const auto check = [&records, &all_know] {
    const ModelsOfRun all = records.Sum();
    EXPECT_EQ(all.by_rank[0].result, all_know.result->models[0]);
    EXPECT_EQ(all.by_rank[1].result, all_know.result->models[1]);
    EXPECT_EQ(all.by_rank[0].step, Step(4)) << "they meet when all are trained";
    EXPECT_EQ(all.test_loss, 0.1);
    EXPECT_EQ(all.test_accuracy, 0.97);
    EXPECT_EQ(all.training_loss, 0.25);
    EXPECT_EQ(all.samples, all_know.samples);
    EXPECT_EQ(all.uncounted, 0);
  };
  check();
  records.NoteLastWords("job-worker-0", came_late);
  check();
}

TEST(ModelRecords, ReportOfWhatAllCameToIsOfEach) {
  ModelRecords records(TwoModels());
  StatusDocument done = ReportOf("job-worker-0", 4, 4);
  done.samples = {60, 60, 0, 0};
  done.result = TestResult{0.25, {}, {{0.5, 0.25, {}}, {0.25, 0.25, {}}}};
  records.Report(done);
  const ModelsOfRun all = records.Sum();
  EXPECT_EQ(all.training_loss, 0.375);
  EXPECT_EQ(all.samples, done.samples);
  EXPECT_FALSE(all.by_rank[0].samples.has_value()) << "that is the sum";
}

TEST(ModelRecords, SamplesAreTheSumOverThoseThatTold) {
  ModelRecords records(TwoModels());
  StatusDocument first = ReportOf("job-worker-0", 94, 188);
  first.samples = {700, 700, 0, 1};
  records.Report(first);
  EXPECT_EQ(records.Sum().uncounted, 1);
  TerminationMessage words = Words(80, 188, 0.5);
  words.samples = SampleCounts{800, 801, 1, 0};
  records.NoteLastWords("job-worker-1", words);
  EXPECT_EQ(records.Sum().samples, (SampleCounts{1500, 1501, 1, 1}));
  EXPECT_EQ(records.Sum().uncounted, 0);
  EXPECT_FALSE(records.Sum().has_final_samples) << "the first has not said its last";
}

// What else the pod says is of the furthest, and its last words are of nobody knows whom.
TEST(ModelRecords, ProcessesOfAPodAreToldApart) {
  ModelRecords records(TwoProcessesEach());
  StatusDocument pod = ReportOf("job-worker-1", 70, 100);
  pod.steps_skipped = 3;
  pod.samples = {700, 700, 0, 0};
  pod.models = {{2, Incarnation(0), Step(40), Step(60), {}},
                {3, Incarnation(0), Step(), Step(70), {}, 100}};
  records.Report(pod);
  records.NoteLastWords("job-worker-1", Words(72, 100, 0.5));
  const ModelsOfRun all = records.Sum();
  EXPECT_EQ(all.by_rank[0], ModelRecord());
  EXPECT_EQ(all.by_rank[2].step, Step(60));
  EXPECT_EQ(all.by_rank[2].steps_total, std::nullopt);
  EXPECT_EQ(all.by_rank[2].first_step, Step(40));
  EXPECT_EQ(all.by_rank[2].steps_skipped, 0);
  EXPECT_EQ(all.by_rank[3].step, Step(70));
  EXPECT_EQ(all.by_rank[3].steps_total, 100);
  EXPECT_EQ(all.by_rank[3].steps_skipped, 3);
  EXPECT_FALSE(all.by_rank[3].result.has_value());
  EXPECT_EQ(all.samples, pod.samples);
  EXPECT_EQ(all.uncounted, 3);
}

// How many steps the second has nobody said.
TEST(ModelRecords, PodWhoseProcessesHaveAllSucceededSpeaksOfItsFirst) {
  ModelRecords records({{kWorker0, {0, 1}}});
  StatusDocument pod = ReportOf("job-worker-0", 70, 100);
  pod.models = {{0, Incarnation(0), Step(), Step(70), {}},
                {1, Incarnation(0), Step(), Step(60), {}}};
  records.Report(pod);
  TerminationMessage words = Words(100, 100, 0.5);
  words.outcome = Outcome::kSuccess;
  words.result = TestResult{0.25, 0.75, {{0.5, 0.25, 0.75}, {0.5, 0.25, 0.75}}};
  records.NoteLastWords("job-worker-0", words);
  const ModelsOfRun all = records.Sum();
  EXPECT_EQ(all.by_rank[0].step, Step(100));
  EXPECT_EQ(all.by_rank[1].step, std::nullopt);
  EXPECT_EQ(all.by_rank[1].result, words.result->models[1]);
}

TEST(ModelRecords, ModelBeganWhereItsFirstProcessDid) {
  ModelRecords records(TwoModels());
  StatusDocument first = ReportOf("job-worker-0", 50, 100);
  first.timeline.front().step = Step(40);
  records.Report(first);
  records.Report(ReportOf("job-worker-0-r1", 0, 100));
  EXPECT_EQ(records.Sum().by_rank[0].first_step, Step(40));
  TerminationMessage words = Words(100, 100, 0.5);
  words.checkpoints = CheckpointStatus{0, 0, 0, "", Step(100)};
  records.NoteLastWords("job-worker-1", words);
  EXPECT_EQ(records.Sum().by_rank[1].first_step, Step(100));
}

}  // namespace
}  // namespace lockstep::control
