#include "trainer-runtime/supervisor/process/stop_requests.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint AfterStop(Duration since_stop) {
  return TimePoint(std::chrono::hours(1) + since_stop);
}

TEST(TurnOfRest, IsTwoSecondsAfterTheSessionAndLeavesHalfOfTheRestOfTheGrace) {
  struct Row {
    Duration ended_at;
    Duration kill_at;
    Duration turn_at;
  };

  const Row rows[] = {
      {seconds(0), seconds(29), seconds(2)},
      {seconds(20), seconds(29), seconds(22)},
      {seconds(25), seconds(29), seconds(27)},
      {seconds(27), seconds(29), seconds(28)},                      // as long for the signal
      {milliseconds(600), milliseconds(1600), milliseconds(1100)},  // after a failure: 2 s in all
      {seconds(29), seconds(29), seconds(29)},
      {seconds(30), seconds(29), seconds(30)},  // it was killed: nobody waits
  };
  for (const Row& row : rows) {
    EXPECT_EQ(TurnOfRest(AfterStop(row.ended_at), AfterStop(row.kill_at)), AfterStop(row.turn_at))
        << ToSeconds(row.ended_at) << " of " << ToSeconds(row.kill_at);
  }
}

TEST(LeftHelpers, AreAdoptedAndOfTheGroupAndNoScriptThatWaits) {
  const std::vector<ProcessStat> table = {
      StatOf(10, 2, 10),   // the leader, a script
      StatOf(11, 10, 10),  // what reads the program's output, for it
      StatOf(13, 2, 10),   // a loader's worker, whose program has ended
      StatOf(14, 13, 10),  // and a thing of the worker's
      StatOf(15, 2, 15),   // that has left the group
      StatOf(20, 2, 20),   // another leader
      StatOf(21, 2, 20)};  // and its orphan
  EXPECT_THAT(LeftHelpers(table, 10, 2), testing::ElementsAre(13));
}

TEST(HandlersOf, AreOfTheGroupAndNotItsLeader) {
  ProcessStat saving = StatOf(11, 2, 10);
  saving.caught = 1 << (SIGTERM - 1);
  ProcessStat other_signal = StatOf(12, 2, 10);
  other_signal.caught = 1 << (SIGINT - 1);
  ProcessStat leader = StatOf(10, 2, 10);
  leader.caught = saving.caught;
  ProcessStat stranger = StatOf(20, 2, 20);
  stranger.caught = saving.caught;
  const std::vector<ProcessStat> table = {leader, saving, other_signal, stranger};
  EXPECT_THAT(HandlersOf(table, 10, SIGTERM), testing::ElementsAre(11));
  EXPECT_THAT(HandlersOf(table, 10, SIGINT), testing::ElementsAre(12));
}

}  // namespace
}  // namespace lockstep::runtime
