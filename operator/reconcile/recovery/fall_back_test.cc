// When training is said to have lost progress, and when a report is only late.

#include <chrono>
#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "common/contract/status/termination_message.h"
#include "operator/api/job/placement.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

class FallBackTest : public testing::Test {
 protected:
  FallBackTest() : world_(MakeTrainingJob(2)) {
    world_.observed.settings.job_directory = "/lockstep/work";
    world_.Launch();
    world_.Advance(std::chrono::seconds(1));
    world_.ReportAll();
  }

  // The report of the pod that stands for `rank` now.
  StatusDocument& DocumentOf(int rank) { return world_.observed.reports.at(PodOf(rank)).document; }

  std::string PodOf(int rank) const {
    const PodPlacement& placement = world_.job.status.placement.at(static_cast<std::size_t>(rank));
    return PodName(world_.job.metadata.name,
                   TaskOf(placement),
                   {world_.job.status.attempt, placement.incarnation});
  }

  // Both ranks train, at `step`.
  void TrainAt(int64_t step) {
    for (const int rank : {0, 1}) {
      DocumentOf(rank).phase = Phase::kTraining;
      DocumentOf(rank).step = Step(step);
    }
    world_.Step();
  }

  // Both pods are lost; their successors have met and hold the state of `step`.
  void StartAgainAt(int64_t step) {
    world_.Advance(std::chrono::seconds(1));
    world_.Exit(PodOf(0), 137);
    world_.Exit(PodOf(1), 137);
    world_.Step();
    world_.Advance(std::chrono::seconds(1));
    world_.RunAll();
    world_.ReportAll();
    MeetAt(step);
  }

  // Both ranks have met, and hold the state of `step`.
  void MeetAt(int64_t step) {
    for (const int rank : {0, 1}) {
      StatusDocument& document = DocumentOf(rank);
      document.phase = Phase::kTraining;
      document.step = Step(step);
      TimelineEvent ready;
      ready.event = TimelineEventKind::kStateReady;
      ready.epoch = document.epoch;
      ready.step = Step(step);
      document.timeline.push_back(ready);
    }
  }

  // Rank 0's pod answers now, with what its processes told it before they heard of a loss.
  void AnswerOfBefore(int64_t step) {
    world_.observed.reports.at(PodOf(0)).age = Duration::zero();
    DocumentOf(0).step = Step(step);
    DocumentOf(0).samples_per_second += 1;  // so that there is news
  }

  // What is said of lost progress in the next turn; empty: nothing.
  std::string Told() {
    for (const Event& event : world_.Step().events) {
      if (event.reason == "ProgressLost") {
        return event.message;
      }
    }
    return "";
  }

  int64_t KnownStep() const { return world_.job.status.progress->step; }

  int64_t StepsRepeated() const { return world_.job.status.progress->steps_repeated; }

  TestWorld world_;
};

TEST_F(FallBackTest, ReportFromBeforeTheLastStepLosesNothing) {
  TrainAt(18541);
  const auto reports = world_.observed.reports;
  TerminationMessage words;
  words.result = TestResult{};
  words.last_step = Step(18720);
  for (const std::string& pod : {PodOf(0), PodOf(1)}) {
    world_.Exit(pod, 0);
    world_.Find(pod)->status.termination->message = EncodeTerminationMessage(words);
  }
  world_.observed.reports = reports;  // the newest that was heard of them

  EXPECT_EQ(Told(), "");
  EXPECT_EQ(KnownStep(), 18720);
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(KnownStep(), 18720);
}

TEST_F(FallBackTest, AnotherRanksOlderReportLosesNothingButTellsOfItsCheckpoint) {
  TrainAt(500);
  world_.observed.reports.erase(PodOf(0));
  DocumentOf(1).step = Step(300);
  DocumentOf(1).last_checkpoint_step = Step(200);

  EXPECT_EQ(Told(), "");
  EXPECT_EQ(KnownStep(), 500);
  EXPECT_EQ(world_.job.status.progress->checkpoint_step, 200);
}

// Rank 0 has had its state all along: what became of the other one's pod does not move it.
TEST_F(FallBackTest, LossOfAnotherPodLosesNothingWhereRanksDoNotMeet) {
  for (const Strategy strategy : {Strategy::kIndependent, Strategy::kParameterServer}) {
    world_.job.spec.strategy = strategy;
    TrainAt(500);
    world_.Advance(std::chrono::seconds(1));
    world_.Exit(PodOf(1), 137);
    world_.Step();
    world_.Advance(std::chrono::seconds(1));
    world_.RunAll();
    world_.ReportAll();
    StatusDocument& document = DocumentOf(0);
    document.phase = Phase::kTraining;
    document.step = Step(510);
    TimelineEvent ready;
    ready.event = TimelineEventKind::kStateReady;
    ready.epoch = document.epoch;
    document.timeline.push_back(ready);

    EXPECT_EQ(Told(), "");
    EXPECT_EQ(StepsRepeated(), 0);
  }
}

// Every rank has a model of its own, and that of a lost one goes back to its own checkpoint.
class OwnModelsTest : public FallBackTest {
 protected:
  OwnModelsTest() { world_.job.spec.strategy = Strategy::kIndependent; }

  void TrainAt(int rank, int64_t step) {
    DocumentOf(rank).phase = Phase::kTraining;
    DocumentOf(rank).step = Step(step);
  }

  // The pod of `rank` is lost and the other one's answers on; its successor runs.
  void Lose(int rank) {
    world_.Advance(std::chrono::seconds(1));
    world_.Exit(PodOf(rank), 137);
    world_.observed.reports.erase(PodOf(rank));
    world_.Step();
    world_.Advance(std::chrono::seconds(1));
    world_.RunAll();
    const StatusDocument other = DocumentOf(1 - rank);
    world_.ReportAll();
    DocumentOf(1 - rank) = other;
  }

  // It has begun with the state of `first`, and come to `step`.
  void GoOn(int rank, int64_t first, int64_t step) {
    TrainAt(rank, step);
    TimelineEvent ready;
    ready.event = TimelineEventKind::kStateReady;
    ready.step = Step(first);
    DocumentOf(rank).timeline.push_back(ready);
  }
};

TEST_F(OwnModelsTest, StepsOfEveryModelThatGoesBackAddUpAndAreTold) {
  TrainAt(0, 70);
  TrainAt(1, 64);
  world_.Step();
  Told();
  Lose(1);
  GoOn(1, 50, 90);

  EXPECT_EQ(Told(),
            "model 1 continues at step 50, but had reached at least step 64: no rank that has the "
            "training state is left, and no volume is mounted at /lockstep/work/checkpoints, so "
            "checkpoints were deleted with their pods");
  EXPECT_EQ(StepsRepeated(), 14);
  EXPECT_EQ(KnownStep(), 70) << "of model 0";
  EXPECT_EQ(Told(), "") << "once";
  EXPECT_EQ(StepsRepeated(), 14);
}

// It may wait for hours, and nothing more is heard of it then.
TEST_F(OwnModelsTest, ModelThatIsDoneAndWaitsForTheOthersIsToldOfToo) {
  TrainAt(0, 70);
  TrainAt(1, 64);
  world_.Step();
  TrainAt(1, 100);
  DocumentOf(1).phase = Phase::kRendezvous;
  world_.Step();
  EXPECT_EQ(world_.job.status.progress->models.at(1).step, 100);
}

// While it is away, the other model's step stands for the job's.
TEST_F(OwnModelsTest, ModelOfTheFirstRankIsToldOfAsAnyOther) {
  TrainAt(0, 70);
  TrainAt(1, 80);
  world_.Step();
  Told();
  Lose(0);
  ASSERT_EQ(KnownStep(), 80);
  GoOn(0, 0, 3);

  EXPECT_TRUE(Told().starts_with("model 0 continues at step 0, but had reached at least step 70"));
  EXPECT_EQ(StepsRepeated(), 70);
  EXPECT_EQ(KnownStep(), 3);
}

TEST_F(OwnModelsTest, ModelsOfAGangThatStartsAnewAreToldTogether) {
  TrainAt(0, 70);
  TrainAt(1, 64);
  world_.Step();
  Told();
  StartAgainAt(50);

  EXPECT_TRUE(Told().ends_with("; the same happened to 1 other model"));
  EXPECT_EQ(StepsRepeated(), 34);
}

TEST_F(OwnModelsTest, ModelThatWasSavedAtItsLastStepLosesNothing) {
  TrainAt(0, 70);
  TrainAt(1, 64);
  world_.Step();
  Told();
  Lose(1);
  GoOn(1, 64, 65);

  EXPECT_EQ(Told(), "");
  EXPECT_EQ(StepsRepeated(), 0);
}

// Model 1's 800 has stood for it, and is no step that it has to reach again.
TEST_F(OwnModelsTest, ProgressIsTheFirstModelsAgainOnceItGoesOn) {
  TrainAt(0, 70);
  TrainAt(1, 800);
  world_.Step();
  Lose(0);
  ASSERT_EQ(KnownStep(), 800);
  DocumentOf(0).phase = Phase::kRestoring;
  Told();
  EXPECT_EQ(KnownStep(), 800) << "it has no state yet";
  GoOn(0, 70, 71);
  DocumentOf(0).loss = 0.5;

  EXPECT_EQ(Told(), "");
  EXPECT_EQ(KnownStep(), 71);
  EXPECT_EQ(world_.job.status.progress->loss, 0.5);
  EXPECT_EQ(StepsRepeated(), 0);
}

// Each goes back to its own: the job's is the newest that is left to any.
TEST_F(OwnModelsTest, CheckpointsThatWentWithTheirPodsCountNoMore) {
  const auto checkpoint = [&] { return world_.job.status.progress->checkpoint_step; };
  for (const int rank : {0, 1}) {
    TrainAt(rank, 550);
    DocumentOf(rank).last_checkpoint_step = Step(500 - 20 * rank);
  }
  world_.Step();
  world_.Step();
  ASSERT_EQ(checkpoint(), 500);
  Lose(0);
  EXPECT_EQ(checkpoint(), 500) << "it may be taken up again";
  GoOn(0, 0, 3);
  world_.Step();
  EXPECT_EQ(checkpoint(), 480) << "model 1's";

  StartAgainAt(0);
  world_.Step();
  EXPECT_EQ(checkpoint(), 0);
  const WallTime told_at = *world_.job.status.progress->checkpoint_at;
  world_.Advance(std::chrono::seconds(60));
  world_.ReportAll();
  GoOn(0, 0, 120);
  DocumentOf(0).last_checkpoint_step = Step(100);
  world_.Step();
  EXPECT_EQ(checkpoint(), 100);
  EXPECT_GT(*world_.job.status.progress->checkpoint_at, told_at);
}

TEST_F(OwnModelsTest, ModelThatTakesUpItsNewestCheckpointKeepsIt) {
  TrainAt(0, 550);
  TrainAt(1, 550);
  DocumentOf(1).last_checkpoint_step = Step(500);
  world_.Step();
  world_.Step();
  Lose(1);
  GoOn(1, 500, 501);
  EXPECT_NE(Told(), "");
  EXPECT_EQ(world_.job.status.progress->checkpoint_step, 500);
}

// Of one pod with two processes, which is told of as one.
class OwnModelsOfProcessesTest : public OwnModelsTest {
 protected:
  OwnModelsOfProcessesTest() {
    world_.job.spec.roles.front().processes = 2;  // pod 1's first rank is 2
    TrainAt(0, 90);
    DocumentOf(0).models = {{0, Incarnation(0), Step(0), Step(64), Step(50)},
                            {1, Incarnation(0), Step(0), Step(90), Step(80)}};
    world_.Step();
    world_.Step();
  }

  std::string Models() const {
    std::string text;
    for (const ModelProgress& model : world_.job.status.progress->models) {
      text += std::to_string(model.rank) + "@" + std::to_string(model.step) + " ";
    }
    return text;
  }
};

TEST_F(OwnModelsOfProcessesTest, EachIsNoted) {
  EXPECT_EQ(Models(), "0@64 1@90 ");
  EXPECT_EQ(world_.job.status.progress->checkpoint_step, 80);
  TrainAt(1, 7);
  world_.Step();
  EXPECT_EQ(Models(), "0@64 1@90 2@7 ");
}

TEST_F(OwnModelsOfProcessesTest, ProcessThatStartsAgainInItsPodIsToldOfByItsRank) {
  DocumentOf(0).step = Step(66);  // of the one that is left
  DocumentOf(0).models = {{0, Incarnation(0), Step(0), Step(66), Step(50)}};
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(Models(), "0@66 1@90 ") << "what was known of it";
  EXPECT_EQ(KnownStep(), 66);

  DocumentOf(0).models.push_back({1, Incarnation(1), Step(80), Step(81), std::nullopt});
  EXPECT_TRUE(Told().starts_with("model 1 continues at step 80, but had reached at least step 90"));
  EXPECT_EQ(Models(), "0@66 1@81 ");
  EXPECT_EQ(StepsRepeated(), 10);
  EXPECT_EQ(world_.job.status.progress->checkpoint_step, 80);
  EXPECT_EQ(Told(), "") << "once";
}

// No pod is believed of ranks that the job has not got.
TEST_F(OwnModelsOfProcessesTest, RankThatIsNotThereIsLeftOut) {
  DocumentOf(0).models.push_back({4, Incarnation(0), Step(0), Step(9), std::nullopt});
  world_.Step();
  EXPECT_EQ(Models(), "0@64 1@90 ");
}

TEST_F(FallBackTest, StateThatANewMeetingBeganWithIsNamedHoweverFarTrainingIsSince) {
  TrainAt(4200);
  StartAgainAt(4000);
  DocumentOf(0).step = Step(4350);

  EXPECT_EQ(Told(),
            "training continues at step 4000, but had reached at least step 4200: no rank that has "
            "the training state is left, and no volume is mounted at /lockstep/work/checkpoints, "
            "so checkpoints were deleted with their pods");
  EXPECT_EQ(KnownStep(), 4350);
  EXPECT_EQ(Told(), "") << "once";
}

TEST_F(FallBackTest, StepsThatAreTakenAgainAddUp) {
  TrainAt(4200);
  EXPECT_EQ(StepsRepeated(), 0);
  StartAgainAt(4000);
  Told();
  EXPECT_EQ(StepsRepeated(), 200);
  TrainAt(4300);
  EXPECT_EQ(StepsRepeated(), 200);
  StartAgainAt(4299);  // of a survivor
  Told();
  EXPECT_EQ(StepsRepeated(), 200);
  TrainAt(4310);
  StartAgainAt(4300);
  Told();
  EXPECT_EQ(StepsRepeated(), 210);
}

TEST_F(FallBackTest, LateReportOfASurvivorLosesNothing) {
  TrainAt(4200);
  DocumentOf(1).step = Step(3900);
  world_.Advance(std::chrono::seconds(1));
  world_.Exit(PodOf(0), 137);
  world_.observed.reports.at(PodOf(1)).age = std::chrono::milliseconds(300);

  EXPECT_EQ(Told(), "") << "the report is from before the loss";
  EXPECT_EQ(KnownStep(), 4200);
}

// A pod of several processes is asked right after another one was lost.
TEST_F(FallBackTest, SurvivorThatHasNotHeardOfTheLossLosesNothing) {
  MeetAt(0);
  TrainAt(102);
  world_.Advance(std::chrono::seconds(1));
  world_.Exit(PodOf(1), 137);
  world_.Step();
  world_.RunAll();
  for (const int64_t step : {102, 103}) {
    AnswerOfBefore(step);
    EXPECT_EQ(Told(), "");
  }
  EXPECT_EQ(KnownStep(), 103);
  EXPECT_EQ(StepsRepeated(), 0);

  world_.Advance(std::chrono::seconds(1));
  world_.ReportAll();
  MeetAt(123);
  TrainAt(124);
  EXPECT_EQ(StepsRepeated(), 0);
}

// The same, of a survivor that is lost itself before the others have met it.
TEST_F(FallBackTest, LossOfTheLastSurvivorIsToldOnce) {
  MeetAt(0);
  TrainAt(102);
  world_.Advance(std::chrono::seconds(1));
  world_.Exit(PodOf(1), 137);
  world_.Step();
  AnswerOfBefore(103);
  EXPECT_EQ(Told(), "");
  StartAgainAt(0);
  EXPECT_NE(Told(), "");
  TrainAt(20);
  EXPECT_EQ(StepsRepeated(), 103);
}

// The same, where the last survivor's process starts again in its pod, which stays in place.
TEST_F(FallBackTest, LossOfTheLastSurvivorsProcessIsTold) {
  MeetAt(0);
  TrainAt(102);
  world_.Advance(std::chrono::seconds(1));
  world_.Exit(PodOf(1), 137);
  world_.Step();
  world_.Advance(std::chrono::seconds(1));
  AnswerOfBefore(103);
  EXPECT_EQ(Told(), "");
  world_.Advance(std::chrono::seconds(1));
  world_.RunAll();
  world_.ReportAll();
  MeetAt(0);
  EXPECT_NE(Told(), "");
}

TEST_F(FallBackTest, MeetingThatASurvivorsStateBeginsLosesNothing) {
  TrainAt(4200);
  StartAgainAt(4199);
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(KnownStep(), 4199);
}

TEST_F(FallBackTest, RankWithoutAStateSaysNothing) {
  for (const Phase phase : {Phase::kRestoring, Phase::kFailed, Phase::kStopping}) {
    TrainAt(4200);
    StartAgainAt(0);
    DocumentOf(0).phase = phase;
    EXPECT_EQ(Told(), "") << PhaseName(phase);
    EXPECT_EQ(KnownStep(), 4200) << PhaseName(phase);
  }
}

// The newest one was damaged, say, and the one before was taken.
TEST_F(FallBackTest, CheckpointThatIsNotTakenUpCountsNoMore) {
  TrainAt(4200);
  DocumentOf(0).last_checkpoint_step = Step(4000);
  Told();
  ASSERT_EQ(world_.job.status.progress->checkpoint_step, 4000);
  StartAgainAt(3000);
  DocumentOf(0).last_checkpoint_step = Step(3000);

  EXPECT_NE(Told(), "");
  EXPECT_EQ(world_.job.status.progress->checkpoint_step, 3000);
}

}  // namespace
}  // namespace lockstep::control
