#include "trainer-runtime/telemetry/status_board.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(StatusBoard, UpdateShowsInTheNextSnapshot) {
  StatusDocument initial;
  initial.job = "mnist";
  StatusBoard board(initial);
  board.Update([](StatusDocument& document) { document.step = Step(12); });
  board.SetPhase(Phase::kTraining);
  EXPECT_EQ(board.Snapshot().job, "mnist");
  EXPECT_EQ(board.Snapshot().step, Step(12));
  EXPECT_EQ(board.Snapshot().phase, Phase::kTraining);
}

TEST(StatusBoard, RecordTakesEpochAndStepFromTheDocument) {
  StatusBoard board(StatusDocument{});
  board.Update([](StatusDocument& document) {
    document.epoch = Epoch(3);
    document.step = Step(40);
  });
  board.Record(TimelineEventKind::kPeerLost, TimePoint(std::chrono::nanoseconds(77)), 1);
  ASSERT_EQ(board.Snapshot().timeline.size(), 1U);
  const TimelineEvent event = board.Snapshot().timeline[0];
  EXPECT_EQ(event.event, TimelineEventKind::kPeerLost);
  EXPECT_EQ(event.epoch, Epoch(3));
  EXPECT_EQ(event.step, Step(40));
  EXPECT_EQ(event.rank, 1);
  EXPECT_EQ(event.monotonic_ns, 77);
}

TEST(StatusBoard, TimelineKeepsTheNewestEvents) {
  StatusBoard board(StatusDocument{});
  for (int64_t index = 0; index < 70; ++index) {
    board.Record(TimelineEventKind::kCheckpointEnd, TimePoint(std::chrono::nanoseconds(index)));
  }
  const StatusDocument snapshot = board.Snapshot();
  ASSERT_EQ(snapshot.timeline.size(), kStatusTimelineMax);
  EXPECT_EQ(snapshot.timeline.front().monotonic_ns, 6);
  EXPECT_EQ(snapshot.timeline.back().monotonic_ns, 69);
}

void AddDataEpoch(StatusBoard* board, int64_t data_epoch) {
  DataEpochResult result;
  result.data_epoch = data_epoch;
  board->Update([&](StatusDocument& document) { document.history.push_back(result); });
}

TEST(StatusBoard, DataEpochsThatLastWordsHaveNoRoomForAreWaitedForUntilTheyAreTold) {
  StatusBoard board(StatusDocument{});
  board.Tell();
  AddDataEpoch(&board, 0);
  AddDataEpoch(&board, 1);
  std::atomic<bool> has_asked = false;
  std::thread reader([&] {
    has_asked = true;
    board.Tell();
  });
  EXPECT_TRUE(board.WaitUntilTold(1, Deadline::After(SteadyNow(), std::chrono::minutes(1))));
  EXPECT_TRUE(has_asked);
  reader.join();
}

TEST(StatusBoard, WhoAsksIsToldHowLongAgoHeldProgramsEndedAsOfThatMoment) {
  StatusBoard board(StatusDocument{});
  const TimePoint ended = SteadyNow() - std::chrono::minutes(1);
  board.Update([&](StatusDocument& document) {
    document.held = HeldEnd{137, 9, 0, "", ended.time_since_epoch().count()};
  });
  EXPECT_GE(board.Tell().held->seconds_ago, 60);
  board.Update([](StatusDocument& document) { document.held = HeldEnd{137, 9, 0.5, ""}; });
  EXPECT_EQ(board.Tell().held->seconds_ago, 0.5);
}

TEST(StatusBoard, NobodyIsWaitedForWhereLastWordsSayItAllOrNobodyAsks) {
  const Deadline past = Deadline::At(TimePoint());
  StatusBoard asked(StatusDocument{});
  asked.Tell();
  AddDataEpoch(&asked, 0);
  EXPECT_TRUE(asked.WaitUntilTold(1, past));
  EXPECT_FALSE(asked.WaitUntilTold(0, past));
  StatusBoard unasked(StatusDocument{});
  AddDataEpoch(&unasked, 0);
  EXPECT_TRUE(unasked.WaitUntilTold(0, past));
}

}  // namespace
}  // namespace lockstep::runtime
