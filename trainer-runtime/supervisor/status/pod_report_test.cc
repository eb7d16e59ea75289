#include "trainer-runtime/supervisor/status/pod_report.h"

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "common/contract/environment/supervised_place.h"

namespace lockstep::runtime {
namespace {

StatusDocument OfPod() {
  StatusDocument pod;
  pod.pod = "mnist-worker-1-r2";
  pod.rank = 2;
  pod.incarnation = Incarnation(2);
  pod.pid = 10;
  pod.devices = {{"GPU-1", "", {0, 1}}};
  return pod;
}

StatusDocument OfProcess(int rank, int64_t step) {
  StatusDocument document;
  document.rank = rank;
  document.incarnation = IncarnationOfProcess(Incarnation(2), 1);
  document.pid = 100 + rank;
  document.step = Step(step);
  document.phase = Phase::kTraining;
  return document;
}

TEST(PodReport, ProcessesOfALaterPodAreNewerThanAllOfAnEarlierOne) {
  EXPECT_LT(IncarnationOfProcess(Incarnation(1), kStartsPerPodMax - 1),
            IncarnationOfProcess(Incarnation(2), 0));
  EXPECT_LT(IncarnationOfProcess(Incarnation(1), 0), IncarnationOfProcess(Incarnation(1), 1));
  EXPECT_EQ(IncarnationOfPod(IncarnationOfProcess(Incarnation(7), 3)), Incarnation(7));
}

TEST(PodReport, PodSpeaksForItselfUntilAProcessHasSpoken) {
  EXPECT_EQ(PodStatus(OfPod(), std::vector<ProcessReport>(2)), OfPod());
}

TEST(PodReport, PodIsAsFarAsItsLeadingProcess) {
  std::vector<ProcessReport> reports(2);
  reports[0].newest = OfProcess(2, 5);
  reports[1].newest = OfProcess(3, 6);
  PeerStatus sibling;
  sibling.incarnation = IncarnationOfProcess(Incarnation(2), 1);
  PeerStatus stranger;
  stranger.incarnation = IncarnationOfProcess(Incarnation(4), 0);
  reports[1].newest->peers = {sibling, stranger};
  const StatusDocument pod = PodStatus(OfPod(), reports);

  EXPECT_EQ(pod.step, Step(6));
  EXPECT_EQ(pod.phase, Phase::kTraining);
  EXPECT_EQ(pod.pod, OfPod().pod);
  EXPECT_EQ(pod.rank, 2);
  EXPECT_EQ(pod.incarnation, Incarnation(2));
  EXPECT_EQ(pod.pid, 10);
  EXPECT_EQ(pod.devices, OfPod().devices);
  ASSERT_EQ(pod.peers.size(), 2U);
  EXPECT_EQ(pod.peers[0].incarnation, Incarnation(2));
  EXPECT_EQ(pod.peers[1].incarnation, Incarnation(4));
}

TEST(PodReport, HistoryOfSeveralModelsIsThatOfTheFirstWhoeverLeads) {
  std::vector<ProcessReport> reports(2);
  reports[0].newest = OfProcess(2, 5);
  reports[0].newest->history = {{0, 5, 50, 0.5, {}, 1}};
  reports[1].newest = OfProcess(3, 10);
  reports[1].newest->history = {{0, 5, 50, 0.25, {}, 1}, {1, 10, 50, 0.125, {}, 1}};
  EXPECT_EQ(PodStatus(OfPod(), reports).history, reports[1].newest->history);
  EXPECT_EQ(PodStatus(OfPod(), reports, true).history, reports[0].newest->history);
  CloseReport(&reports[0]);
  EXPECT_TRUE(PodStatus(OfPod(), reports, true).history.empty());
}

TEST(PodReport, EachProcessThatHoldsAModelOfItsOwnIsToldOf) {
  std::vector<ProcessReport> reports(3);
  reports[0].newest = OfProcess(2, 5);
  TimelineEvent ready;
  ready.event = TimelineEventKind::kStateReady;
  ready.step = Step(3);
  reports[0].newest->timeline = {ready};
  reports[0].newest->last_checkpoint_step = Step(4);
  reports[1].newest = OfProcess(3, 0);
  reports[1].newest->phase = Phase::kRestoring;
  reports[2].newest = OfProcess(4, 9);  // its timeline has forgotten how it began
  reports[2].newest->checkpoints.restored_step = Step(6);
  reports[2].newest->steps_total = 20;
  EXPECT_TRUE(PodStatus(OfPod(), reports).models.empty()) << "they train one model together";

  const Incarnation process = IncarnationOfProcess(Incarnation(2), 1);
  EXPECT_EQ(PodStatus(OfPod(), reports, true).models,
            (std::vector<ModelStatus>{{2, process, Step(3), Step(5), Step(4)},
                                      {4, process, Step(6), Step(9), std::nullopt, 20}}));
}

// A rank that waits for the others is done, and stands at its last step.
TEST(PodReport, ModelOfAProcessThatWaitsForTheOthersStandsWhereItIs) {
  std::vector<ProcessReport> reports(2);
  reports[0].newest = OfProcess(2, 9);
  reports[0].newest->phase = Phase::kRendezvous;
  reports[1].newest = OfProcess(3, 0);
  reports[1].newest->phase = Phase::kRendezvous;
  const std::vector<ModelStatus> models = PodStatus(OfPod(), reports, true).models;
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].step, Step(9));
}

TEST(PodReport, OfEqualStepsTheFirstProcessLeads) {
  std::vector<ProcessReport> reports(3);
  reports[1].newest = OfProcess(3, 6);
  reports[2].newest = OfProcess(4, 6);
  EXPECT_EQ(LeadingProcess(reports), 1);
  EXPECT_EQ(LeadingProcess({}), -1);
}

TEST(PodReport, CheckpointsAreCountedOverAllThatStoodForARank) {
  std::vector<ProcessReport> reports(2);
  reports[0].newest = OfProcess(2, 40);
  reports[0].newest->checkpoints = {3, 1, 0, "full", Step(10)};
  reports[0].newest->last_checkpoint_step = Step(30);
  CloseReport(&reports[0]);
  reports[1].newest = OfProcess(3, 42);
  EXPECT_EQ(PodStatus(OfPod(), reports).checkpoints, (CheckpointStatus{3, 1, 0, "full", Step(10)}));
  EXPECT_EQ(PodStatus(OfPod(), reports).last_checkpoint_step, Step(30));

  reports[0].newest = OfProcess(2, 60);
  reports[0].newest->checkpoints = {1, 0, 2, "", std::nullopt};
  reports[0].newest->last_checkpoint_step = Step(50);
  EXPECT_EQ(PodStatus(OfPod(), reports).checkpoints, (CheckpointStatus{4, 1, 2, "", Step(10)}));
  EXPECT_EQ(PodStatus(OfPod(), reports).last_checkpoint_step, Step(50));
}

// Seconds of an arbitrary monotonic clock.
TimePoint AtSecond(int64_t when_s) {
  return TimePoint(std::chrono::seconds(when_s));
}

TEST(PodReport, ReplacedProcessIsInThePodsTimelineWithItsRank) {
  std::vector<ProcessReport> reports(2);
  reports[0].newest = OfProcess(2, 40);
  TimelineEvent step;
  step.event = TimelineEventKind::kFirstStep;
  step.monotonic_ns = 7'000'000'000;
  reports[0].newest->timeline = {step};
  NoteSuccessor(AtSecond(1), &reports[1]);  // the first of its rank: nobody was lost
  EXPECT_EQ(PodStatus(OfPod(), reports).timeline.size(), 1U);

  NoteLost(AtSecond(3), &reports[1]);
  EXPECT_EQ(PodStatus(OfPod(), reports).timeline.size(), 1U) << "it has no successor yet";
  NoteSuccessor(AtSecond(5), &reports[1]);
  const std::vector<TimelineEvent> timeline = PodStatus(OfPod(), reports).timeline;
  ASSERT_EQ(timeline.size(), 3U);
  EXPECT_EQ(timeline[0].event, TimelineEventKind::kPeerLost);
  EXPECT_EQ(timeline[0].rank, 3);
  EXPECT_EQ(timeline[0].monotonic_ns, 3'000'000'000);
  EXPECT_EQ(timeline[1].event, TimelineEventKind::kProcessStart);
  EXPECT_EQ(timeline[1].rank, 3);
  EXPECT_EQ(timeline[1].monotonic_ns, 5'000'000'000);
  EXPECT_EQ(timeline[2], step);
}

// The events of the whole document that are of one rank.
std::vector<TimelineEvent> OfRank(int rank, const StatusDocument& document) {
  std::vector<TimelineEvent> events;
  for (const TimelineEvent& event : document.timeline) {
    if (event.rank == rank) {
      events.push_back(event);
    }
  }
  return events;
}

TEST(PodReport, ModelOfAReplacedProcessGoesOnWithItsOwnFirstStep) {
  std::vector<ProcessReport> reports(2);
  reports[0].newest = OfProcess(2, 40);
  NoteLost(AtSecond(3), &reports[1]);
  NoteSuccessor(AtSecond(5), &reports[1]);
  reports[1].newest = OfProcess(3, 9);
  TimelineEvent event;
  event.event = TimelineEventKind::kStateReady;
  event.monotonic_ns = 6'000'000'000;
  reports[1].newest->timeline = {event};
  EXPECT_EQ(OfRank(3, PodStatus(OfPod(), reports, true)).size(), 2U) << "it has taken no step yet";

  event.event = TimelineEventKind::kFirstStep;
  event.monotonic_ns = 7'000'000'000;
  reports[1].newest->timeline.push_back(event);
  const std::vector<TimelineEvent> events = OfRank(3, PodStatus(OfPod(), reports, true));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].event, TimelineEventKind::kFirstStep);
  EXPECT_EQ(events[2].monotonic_ns, 7'000'000'000);
  EXPECT_EQ(OfRank(3, PodStatus(OfPod(), reports)).size(), 2U) << "they train one model together";
}

TEST(PodReport, ModelThatIsAtItsEndGoesOnWhenItIsHeld) {
  std::vector<ProcessReport> reports(1);
  NoteLost(AtSecond(3), &reports[0]);
  NoteSuccessor(AtSecond(5), &reports[0]);
  reports[0].newest = OfProcess(2, 9);
  reports[0].newest->steps_total = 9;
  TimelineEvent event;
  event.event = TimelineEventKind::kStateReady;
  event.monotonic_ns = 6'000'000'000;
  reports[0].newest->timeline = {event};
  const std::vector<TimelineEvent> events = OfRank(2, PodStatus(OfPod(), reports, true));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].event, TimelineEventKind::kStateReady);
}

}  // namespace
}  // namespace lockstep::runtime
