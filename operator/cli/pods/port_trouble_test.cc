#include "operator/cli/pods/port_trouble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

const std::string kTaken = "worker-1: 127.1.0.2:12051 is in use by process 4711 (python3)";

TEST(PortTrouble, HolderThatDiesIsWaitedForAndToldOfOnce) {
  PortTrouble trouble;
  trouble.Note(kTaken, false, At(0));
  EXPECT_EQ(trouble.pause_end(), At(100));
  EXPECT_THAT(trouble.TakeWarning(), Optional(HasSubstr("process 4711 (python3); lockstep waits")));
  trouble.Note(kTaken, false, At(100));
  EXPECT_EQ(trouble.TakeWarning(), std::nullopt);
  trouble.Note(std::nullopt, false, At(200));
  EXPECT_EQ(trouble.pause_end(), std::nullopt);
  EXPECT_EQ(trouble.TakeMove(), std::nullopt);
}

TEST(PortTrouble, HolderThatStaysMeansOtherPorts) {
  PortTrouble trouble;
  trouble.Note(kTaken, false, At(0));
  trouble.Note(kTaken, false, At(2999));
  EXPECT_EQ(trouble.TakeMove(), std::nullopt);
  trouble.Note(kTaken, false, At(3000));
  EXPECT_EQ(trouble.TakeMove(), kTaken);
  EXPECT_EQ(trouble.TakeMove(), std::nullopt);
  EXPECT_EQ(trouble.verdict(), std::nullopt);
}

TEST(PortTrouble, PortThatTheManifestAsksForEndsTheRun) {
  PortTrouble trouble;
  trouble.Note(kTaken, true, At(0));
  trouble.Note(kTaken, true, At(3000));
  EXPECT_EQ(trouble.TakeMove(), std::nullopt);
  EXPECT_THAT(trouble.verdict(), Optional(HasSubstr("cannot use another")));
}

TEST(PortTrouble, PodThatFoundItsPortTakenMeansOtherPortsSomeTimes) {
  PortTrouble trouble;
  for (int move = 0; move < PortTrouble::kMovesMax; ++move) {
    trouble.NoteEnd(kTaken, Attempt(move));
    EXPECT_EQ(trouble.TakeMove(), kTaken);
    trouble.NoteEnd(kTaken, Attempt(move));  // another pod of that gang
    EXPECT_EQ(trouble.TakeMove(), std::nullopt);
  }
  EXPECT_EQ(trouble.verdict(), std::nullopt);
  trouble.NoteEnd(kTaken, Attempt(PortTrouble::kMovesMax));
  EXPECT_EQ(trouble.TakeMove(), std::nullopt);
  EXPECT_THAT(trouble.verdict(), Optional(HasSubstr("changed its ports 5 times")));
}

}  // namespace
}  // namespace lockstep::control
