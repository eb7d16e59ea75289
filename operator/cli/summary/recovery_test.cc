#include "operator/cli/summary/recovery.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "operator/cli/summary/summary.h"
#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

struct Moment {
  TimelineEventKind kind;
  int64_t when_ms;
};

TimelineEvent EventOf(const Moment& moment, std::optional<int> rank = std::nullopt) {
  TimelineEvent event;
  event.event = moment.kind;
  event.rank = rank;
  event.monotonic_ns = moment.when_ms * 1'000'000;
  return event;
}

StatusDocument DocumentOf(const std::string& pod, std::initializer_list<Moment> moments) {
  StatusDocument document;
  document.pod = pod;
  for (const Moment& moment : moments) {
    document.timeline.push_back(EventOf(moment));
  }
  return document;
}

StatusDocument ReplacementsReport() {
  return DocumentOf("job-worker-1-r1",
                    {{TimelineEventKind::kProcessStart, 1020},
                     {TimelineEventKind::kRendezvousBegin, 1030},
                     {TimelineEventKind::kRendezvousEnd, 1100},
                     {TimelineEventKind::kEngineReady, 1300},
                     {TimelineEventKind::kStateReady, 1350},
                     {TimelineEventKind::kFirstStep, 1401}});
}

void LoseWorker1(RecoveryTracker* tracker) {
  tracker->NoteFault(kWorker1, At(1000));
  tracker->PodLost({kWorker1, "job-worker-1", "killed", At(1002), {}});
  tracker->PodStarted(kWorker1, "job-worker-1-r1", At(1010));
}

TEST(RecoveryTracker, PartsFollowOneAnotherAndAddUp) {
  RecoveryTracker tracker(true, 2);
  LoseWorker1(&tracker);
  tracker.Report(ReplacementsReport());
  tracker.Report(
      DocumentOf("job-worker-0",
                 {{TimelineEventKind::kFirstStep, 500}, {TimelineEventKind::kFirstStep, 1400}}));
  const auto completed = tracker.TakeCompleted();
  ASSERT_EQ(completed.size(), 1U);
  ASSERT_TRUE(completed[0].parts.has_value());
  EXPECT_EQ(*completed[0].parts,
            (RecoveryParts{milliseconds(2),
                           milliseconds(18),
                           milliseconds(280),
                           milliseconds(0),
                           milliseconds(50),
                           milliseconds(51)}));
  EXPECT_EQ(completed[0].next_step_at, At(1401));
}

TEST(RecoveryTracker, StepsBeforeTheLossDoNotEndIt) {
  RecoveryTracker tracker(true, 2);
  LoseWorker1(&tracker);
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kFirstStep, 999}}));
  EXPECT_TRUE(tracker.is_recovering());
  EXPECT_TRUE(tracker.TakeCompleted().empty());
}

TEST(RecoveryTracker, SurvivorsStepEndsItBeforeTheReplacementHasReported) {
  RecoveryTracker tracker(true, 2);
  LoseWorker1(&tracker);
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kFirstStep, 1400}}));
  EXPECT_FALSE(tracker.is_recovering());
  EXPECT_EQ(tracker.TakeCompleted().size(), 1U);
  EXPECT_TRUE(tracker.TakeCompleted().empty());
}

TEST(RecoveryTracker, LossWithoutAnOrderedFaultStartsWhenNoticed) {
  RecoveryTracker tracker(true, 2);
  tracker.PodLost({kWorker1, "job-worker-1", "crash", At(1002), {}});
  EXPECT_EQ(tracker.all()[0].fault_at, At(1002));
}

TEST(RecoveryTracker, OnePodIsLostOnce) {
  RecoveryTracker tracker(true, 2);
  LoseWorker1(&tracker);
  tracker.PodLost({kWorker1, "job-worker-1", "killed", At(1100), {}});
  EXPECT_EQ(tracker.all().size(), 1U);
}

TEST(RecoveryTracker, LostReplacementIsAnotherLossAndBothEndWithTheNextStep) {
  RecoveryTracker tracker(true, 2);
  LoseWorker1(&tracker);
  tracker.PodLost({kWorker1, "job-worker-1-r1", "killed", At(1050), {}});
  tracker.PodStarted(kWorker1, "job-worker-1-r2", At(1060));
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kFirstStep, 1400}}));
  EXPECT_EQ(tracker.TakeCompleted().size(), 2U);
  EXPECT_EQ(tracker.all()[0].replacement_pod, "job-worker-1-r2");
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(400));
}

TEST(RecoveryTracker, TwoLostTogetherCostTheirTimeOnce) {
  RecoveryTracker tracker(true, 2);
  tracker.PodLost({kWorker0, "job-worker-0", "killed", At(1000), {}});
  tracker.PodLost({kWorker1, "job-worker-1", "killed", At(1100), {}});
  EXPECT_EQ(tracker.TimeLost(At(1500)), milliseconds(500));
}

TEST(RecoveryTracker, CommandIsRecoveredWhenItsReplacementRuns) {
  RecoveryTracker tracker(false, 2);
  LoseWorker1(&tracker);
  const auto completed = tracker.TakeCompleted();
  ASSERT_EQ(completed.size(), 1U);
  EXPECT_EQ(completed[0].over_at, At(1010));
  EXPECT_FALSE(completed[0].next_step_at.has_value());
}

// A gang of commands stands still until the last of its pods runs again.
TEST(RecoveryTracker, GangOfCommandsIsRecoveredWhenAllOfItRuns) {
  RecoveryTracker tracker(false, 2);
  tracker.PodLost({kWorker1, "job-worker-1", "killed", At(1002), At(600)});
  tracker.PodStarted(kWorker1, "job-worker-1-a1", At(4000));
  EXPECT_TRUE(tracker.is_recovering());
  tracker.PodStarted(kWorker0, "job-worker-0-a1", At(4010));
  EXPECT_FALSE(tracker.is_recovering());
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(3410));
}

// What a pod of ranks 2 and 3 tells when rank 3 was lost and replaced.
StatusDocument WithReplacedProcess() {
  StatusDocument document =
      DocumentOf("job-worker-1",
                 {{TimelineEventKind::kProcessStart, 100},
                  {TimelineEventKind::kPeerLost, 300},  // and it came back
                  {TimelineEventKind::kFirstStep, 500},
                  {TimelineEventKind::kPeerLost, 1000},
                  {TimelineEventKind::kPeerLost, 1005},  // as its peers saw it
                  {TimelineEventKind::kProcessStart, 1010}});
  document.task = kWorker1;
  for (const std::size_t of_rank : {1U, 3U, 4U, 5U}) {
    document.timeline[of_rank].rank = 3;
  }
  return document;
}

TEST(RecoveryTracker, ProcessThatIsReplacedWithinItsPodCostsTimeUntilTheNextStep) {
  RecoveryTracker tracker(true, 2);
  tracker.Report(WithReplacedProcess());
  EXPECT_TRUE(tracker.is_recovering());
  tracker.Report(WithReplacedProcess());
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kFirstStep, 1400}}));
  const auto completed = tracker.TakeCompleted();
  ASSERT_EQ(completed.size(), 1U);
  EXPECT_EQ(completed[0].lost_rank, 3);
  EXPECT_EQ(completed[0].culprit, kWorker1);
  EXPECT_EQ(completed[0].over_at, At(1400));
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(400));
}

// A program on liblockstep need not report steps.
TEST(RecoveryTracker, ProcessOfACommandIsBackWhenItsRanksHaveMet) {
  RecoveryTracker tracker(false, 2);
  tracker.Report(WithReplacedProcess());
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kRendezvousEnd, 700}}));
  EXPECT_TRUE(tracker.is_recovering());
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kRendezvousEnd, 1300}}));
  const auto completed = tracker.TakeCompleted();
  ASSERT_EQ(completed.size(), 1U);
  EXPECT_EQ(completed[0].over_at, At(1300));
  EXPECT_FALSE(tracker.is_recovering());
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(300));
}

// The pod tells of the newest process alone: what the one before it has met is in no timeline.
TEST(RecoveryTracker, SecondLossOfARankCountsFromItself) {
  StatusDocument document = DocumentOf("job-worker-1",
                                       {{TimelineEventKind::kPeerLost, 1000},
                                        {TimelineEventKind::kProcessStart, 1010},
                                        {TimelineEventKind::kPeerLost, 8000},
                                        {TimelineEventKind::kProcessStart, 8010}});
  document.task = kWorker1;
  for (TimelineEvent& event : document.timeline) {
    event.rank = 1;
  }
  RecoveryTracker tracker(false, 2);
  tracker.Report(document);
  tracker.Report(DocumentOf(
      "job-worker-0",
      {{TimelineEventKind::kRendezvousEnd, 1300}, {TimelineEventKind::kRendezvousEnd, 8300}}));
  ASSERT_EQ(tracker.all().size(), 2U);
  EXPECT_EQ(tracker.all()[1].fault_at, At(8000));
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(600));
}

// A process of the pod that goes on hears of the loss after the successor has begun.
TEST(RecoveryTracker, LateWordOfTheFirstLossIsNotOfTheSecond) {
  StatusDocument document = WithReplacedProcess();
  const auto add = [&document](TimelineEventKind kind, int64_t when_ms, std::optional<int> rank) {
    document.timeline.push_back({kind, Epoch(), Step(), rank, when_ms * 1'000'000});
  };
  add(TimelineEventKind::kPeerLost, 1012, 3);
  add(TimelineEventKind::kRendezvousEnd, 1300, std::nullopt);
  add(TimelineEventKind::kPeerLost, 8000, 3);
  add(TimelineEventKind::kProcessStart, 8010, 3);
  RecoveryTracker tracker(false, 2);
  tracker.Report(document);
  ASSERT_EQ(tracker.all().size(), 2U);
  EXPECT_EQ(tracker.all()[1].fault_at, At(8000));
}

// A program that imports for seconds runs long before it trains.
TEST(RecoveryTracker, CommandWhoseRanksMeetIsBackWhenTheyHaveMetAgain) {
  RecoveryTracker tracker(false, 2);
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kRendezvousEnd, 700}}));
  LoseWorker1(&tracker);
  EXPECT_TRUE(tracker.is_recovering());
  tracker.Report(DocumentOf("job-worker-1-r1", {{TimelineEventKind::kProcessStart, 1020}}));
  EXPECT_TRUE(tracker.TakeCompleted().empty());
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kRendezvousEnd, 7000}}));
  ASSERT_EQ(tracker.TakeCompleted().size(), 1U);
  EXPECT_EQ(tracker.all()[0].over_at, At(7000));
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(6000));
}

TEST(RecoveryTracker, WhoHasNotMetWhenAnotherIsDoneNeedNotMeetAnyMore) {
  RecoveryTracker tracker(false, 2);
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kRendezvousEnd, 700}}));
  LoseWorker1(&tracker);
  tracker.PodSucceeded();
  EXPECT_EQ(tracker.all().at(0).over_at, At(1010));
}

TEST(RecoveryTracker, EvaluatorMeetsNobody) {
  RecoveryTracker tracker(false, 2);
  const TaskId evaluator{Role::kEvaluator, 0};
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kRendezvousEnd, 700}}));
  tracker.PodLost({evaluator, "job-evaluator-0", "killed", At(1000), {}});
  tracker.PodStarted(evaluator, "job-evaluator-0-r1", At(1010));
  EXPECT_FALSE(tracker.is_recovering());
}

TEST(RecoveryTracker, PodThatIsLostAfterOneOfItsProcessesIsALossOfItsOwn) {
  RecoveryTracker tracker(true, 2);
  tracker.Report(WithReplacedProcess());
  tracker.PodLost({kWorker1, "job-worker-1", "killed", At(1100), {}});
  tracker.PodStarted(kWorker1, "job-worker-1-r1", At(1200));
  ASSERT_EQ(tracker.all().size(), 2U);
  EXPECT_EQ(tracker.all()[0].replacement_pod, "job-worker-1");
  EXPECT_EQ(tracker.all()[1].replacement_pod, "job-worker-1-r1");
}

TEST(RecoveryTracker, PsReplacedAloneCostsNoTimeAndIsBackWhenItIsFilled) {
  RecoveryTracker tracker(true, 4);
  const TaskId ps{Role::kPs, 0};
  tracker.PodLost({ps, "job-ps-0", "killed", At(1000), {}});
  tracker.PodStarted(ps, "job-ps-0-r1", At(1010));
  tracker.Report(DocumentOf("job-ps-0-r1", {{TimelineEventKind::kStateReady, 1100}}));
  ASSERT_EQ(tracker.all().size(), 1U);
  EXPECT_EQ(tracker.all()[0].over_at, At(1100));
  EXPECT_EQ(tracker.TimeLost(At(5000)), Duration::zero());
  EXPECT_NE(FormatRecovery(tracker.all()[0]).find("each shard has two copies again after 0.10 s"),
            std::string::npos);
}

// As with the only ps, or with one whose shard's other copy was gone.
TEST(RecoveryTracker, PsWhoseGangIsBegunAgainCostsTheTimeToTheNextStep) {
  RecoveryTracker tracker(true, 4);
  const TaskId ps{Role::kPs, 0};
  tracker.PodLost({ps, "job-ps-0", "killed", At(1000), {}});
  tracker.PodStarted(ps, "job-ps-0-a1", At(1010));
  tracker.Report(DocumentOf("job-ps-0-a1", {{TimelineEventKind::kStateReady, 1100}}));
  EXPECT_FALSE(tracker.all().at(0).over_at.has_value());
  tracker.Report(DocumentOf("job-worker-0-a1", {{TimelineEventKind::kFirstStep, 1600}}));
  EXPECT_EQ(tracker.all()[0].over_at, At(1600));
  EXPECT_EQ(tracker.TimeLost(At(5000)), milliseconds(600));
  EXPECT_NE(FormatRecovery(tracker.all()[0]).find("training again after 0.60 s"),
            std::string::npos);
}

TEST(RecoveryTracker, StepOfAnothersOwnModelIsNoRecovery) {
  RecoveryTracker tracker(true, 2, /*has_own_models=*/true);
  const TaskId worker{Role::kWorker, 1};
  tracker.PodLost({worker, "job-worker-1", "killed", At(1000), {}});
  tracker.PodStarted(worker, "job-worker-1-r1", At(1010));
  tracker.Report(DocumentOf("job-worker-0", {{TimelineEventKind::kFirstStep, 1011}}));
  EXPECT_TRUE(tracker.is_recovering());
  tracker.Report(DocumentOf("job-worker-1-r1", {{TimelineEventKind::kFirstStep, 1600}}));
  EXPECT_EQ(tracker.all().at(0).over_at, At(1600));
}

// The other processes of the pod went on meanwhile, and their pod is never away.
TEST(RecoveryTracker, ProcessWithItsOwnModelCostsTimeUntilThatModelsNextStep) {
  RecoveryTracker tracker(true, 2, /*has_own_models=*/true);
  StatusDocument document = WithReplacedProcess();
  document.timeline.push_back(EventOf({TimelineEventKind::kFirstStep, 1200}));  // of who leads
  tracker.Report(document);
  EXPECT_TRUE(tracker.is_recovering());
  EXPECT_EQ(tracker.TimeLost(At(1500)), milliseconds(500));
  document.timeline.push_back(EventOf({TimelineEventKind::kFirstStep, 3400}, 2));
  tracker.Report(document);
  EXPECT_TRUE(tracker.is_recovering()) << "it is another process's";
  document.timeline.push_back(EventOf({TimelineEventKind::kFirstStep, 3500}, 3));
  tracker.Report(document);
  const auto completed = tracker.TakeCompleted();
  ASSERT_EQ(completed.size(), 1U);
  EXPECT_EQ(completed[0].over_at, At(3500));
  EXPECT_EQ(completed[0].parts, std::nullopt);
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(2500));
}

TEST(RecoveryTracker, ModelWhosePodIsLostAsWellGoesOnInTheNextPod) {
  RecoveryTracker tracker(true, 2, /*has_own_models=*/true);
  tracker.Report(WithReplacedProcess());
  tracker.PodLost({kWorker1, "job-worker-1", "killed", At(1100), {}});
  tracker.PodStarted(kWorker1, "job-worker-1-r1", At(1200));
  StatusDocument next = ReplacementsReport();
  next.task = kWorker1;
  tracker.Report(next);
  EXPECT_FALSE(tracker.is_recovering());
  EXPECT_EQ(tracker.TimeLost(At(9999)), milliseconds(401));
}

// What a pod of a command says of its programs.
StatusDocument ProgramsOf(const TaskId& task, int64_t relaunches, std::optional<HeldEnd> held) {
  StatusDocument document;
  document.pod = PodName("job", task, {});
  document.task = task;
  document.relaunches = relaunches;
  document.held = std::move(held);
  return document;
}

TEST(RecoveryTracker, RelaunchIsOverWhenAllProgramsRunAgain) {
  RecoveryTracker tracker(false, 2);
  tracker.NotePrograms(ProgramsOf(kWorker0, 0, std::nullopt), At(900));
  tracker.NotePrograms(ProgramsOf(kWorker1, 0, HeldEnd{137, 9, 0.5, "", 1'000'000'000}), At(1500));
  tracker.NotePrograms(ProgramsOf(kWorker0, 0, HeldEnd{1, 0, 0.25, "", 1'350'000'000}),
                       At(1600));      // its echo
  EXPECT_TRUE(tracker.all().empty());  // it may be the end of the job
  tracker.NotePrograms(ProgramsOf(kWorker1, 1, std::nullopt), At(1800));
  EXPECT_TRUE(tracker.is_recovering());
  tracker.NotePrograms(ProgramsOf(kWorker0, 1, std::nullopt), At(1900));
  ASSERT_EQ(tracker.TakeCompleted().size(), 1U);
  EXPECT_EQ(FormatRecovery(tracker.all()[0]),
            "worker-1 (killed): running again after 0.90 s, in the same pods");
  EXPECT_FALSE(tracker.is_recovering());
}

// The loss of one of two whose programs ended as `first` and `second`, told in this order.
Recovery LossOf(const HeldEnd& first, const HeldEnd& second) {
  RecoveryTracker tracker(false, 2);
  tracker.NotePrograms(ProgramsOf(kWorker0, 0, first), At(1500));
  tracker.NotePrograms(ProgramsOf(kWorker1, 0, second), At(1600));
  tracker.NotePrograms(ProgramsOf(kWorker0, 0, first), At(1700));  // it is told until the relaunch
  tracker.NotePrograms(ProgramsOf(kWorker0, 1, std::nullopt), At(1800));
  tracker.NotePrograms(ProgramsOf(kWorker1, 1, std::nullopt), At(1900));
  EXPECT_EQ(tracker.all().size(), 1U);
  return tracker.all().at(0);
}

// By their own clock, however late each was asked.
TEST(RecoveryTracker, CulpritOfARelaunchIsTheProgramThatEndedFirst) {
  const Recovery recovery =
      LossOf(HeldEnd{1, 0, 0.05, "", 1'450'000'000}, HeldEnd{3, 0, 0, "", 1'400'000'000});
  EXPECT_EQ(FormatRecovery(recovery),
            "worker-1 (program_exit): running again after 0.50 s, in the same pods");
  EXPECT_EQ(recovery.noticed_at, At(1500));
}

TEST(RecoveryTracker, EndsThatAreTooCloseToTellAreBothNamed) {
  const Recovery recovery =
      LossOf(HeldEnd{1, 0, 0, "", 1'400'000'001}, HeldEnd{134, 6, 0, "", 1'400'000'000});
  EXPECT_EQ(FormatRecovery(recovery),
            "one of worker-0 (program_exit) and worker-1 (crash): running again after 0.50 s, in "
            "the same pods");
}

// Whoever killed one has killed the other, and neither is its echo.
TEST(RecoveryTracker, ProgramsThatWereKilledAtOnceAreAllNamed) {
  const Recovery recovery =
      LossOf(HeldEnd{137, 9, 0, "", 1'402'500'000}, HeldEnd{137, 9, 0, "", 1'400'000'000});
  EXPECT_EQ(FormatRecovery(recovery),
            "worker-0 (killed) and worker-1 (killed), within 3 ms: running again after 0.50 s, in "
            "the same pods");
}

// The operator ends held pods for it, which is no failure of theirs.
TEST(RecoveryTracker, HeldProgramWhoseGangGetsNewPodsIsALossUntilAllOfThemRun) {
  RecoveryTracker tracker(false, 2);
  tracker.PodStarted(kWorker0, "job-worker-0", At(800));
  tracker.PodStarted(kWorker1, "job-worker-1", At(800));
  tracker.NotePrograms(ProgramsOf(kWorker1, 0, HeldEnd{3, 0, 0.5, ""}), At(1500));
  tracker.PodStarted(kWorker0, "job-worker-0-a1", At(6000));
  tracker.NotePrograms(ProgramsOf(kWorker1, 0, HeldEnd{3, 0, 5.5, ""}), At(6001));  // too late
  EXPECT_TRUE(tracker.is_recovering());
  tracker.PodStarted(kWorker1, "job-worker-1-a1", At(6010));
  ASSERT_EQ(tracker.TakeCompleted().size(), 1U);
  ASSERT_EQ(tracker.all().size(), 1U);
  EXPECT_EQ(FormatRecovery(tracker.all()[0]),
            "worker-1 (program_exit): running again after 5.01 s");
  EXPECT_EQ(tracker.all()[0].replacement_pod, "job-worker-1-a1");
  EXPECT_EQ(tracker.TimeLost(At(9000)), milliseconds(5010));
}

TEST(RecoveryTracker, RelaunchThatDoesNotComeAboutGoesOnWithNewPods) {
  RecoveryTracker tracker(false, 2);
  tracker.NotePrograms(ProgramsOf(kWorker0, 0, HeldEnd{3, 0, 0.5, ""}), At(1500));
  tracker.NotePrograms(ProgramsOf(kWorker1, 0, std::nullopt), At(1500));
  tracker.NotePrograms(ProgramsOf(kWorker0, 1, std::nullopt), At(1800));
  tracker.PodStarted(kWorker0, "job-worker-0-a2", At(6000));
  tracker.PodStarted(kWorker1, "job-worker-1-a2", At(6010));
  ASSERT_EQ(tracker.all().size(), 1U);
  EXPECT_EQ(tracker.all()[0].relaunch, std::nullopt);
  EXPECT_EQ(tracker.all()[0].over_at, At(6010));
}

// Where its pod goes too while it waits, both are one loss, from the first of them.
TEST(RecoveryTracker, HeldProgramWhosePodIsLostIsOneLoss) {
  RecoveryTracker tracker(false, 2);
  tracker.NotePrograms(ProgramsOf(kWorker0, 0, HeldEnd{3, 0, 0.5, ""}), At(1500));
  tracker.PodLost({kWorker0, "job-worker-0", "program_exit", At(3000), {}});
  tracker.PodStarted(kWorker0, "job-worker-0-a1", At(6000));
  ASSERT_EQ(tracker.all().size(), 1U);
  EXPECT_EQ(tracker.all()[0].fault_at, At(1000));
}

}  // namespace
}  // namespace lockstep::control
