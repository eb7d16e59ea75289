#include "trainer-runtime/train/ending.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

constexpr int kTerminated = 143;  // 128 + SIGTERM, as the contract has it

TEST(Ending, EachVerdictHasItsExitCodeAndItsWords) {
  struct Case {
    TrainerVerdict verdict;
    VerdictFacts facts;
    Ending ending;
  };

  const VerdictFacts whole{true, true, ""};
  const std::vector<Case> cases = {
      {TrainerVerdict::kFinished, whole, {EndingKind::kFinished, 0, "training finished"}},
      {TrainerVerdict::kFinished,
       {false, true, ""},
       {EndingKind::kStopped, 0, "the other ranks had finished the training"}},
      {TrainerVerdict::kStopped,
       whole,
       {EndingKind::kStopped, 42, "stopped on request after a checkpoint"}},
      {TrainerVerdict::kStopped,
       {false, false, ""},
       {EndingKind::kStopped, 42, "stopped on request; this job keeps no checkpoints"}},
      {TrainerVerdict::kStoppedUnsaved,
       {false, true, "disk full"},
       {EndingKind::kStopped, kTerminated, "stopped on request; disk full"}},
      {TrainerVerdict::kLeft,
       whole,
       {EndingKind::kStopped, kTerminated, "asked to stop while the other ranks continue"}},
      {TrainerVerdict::kNotSaved, {true, true, "a"}, {EndingKind::kFailed, 74, "a"}},
      {TrainerVerdict::kDiverged, {true, true, "b"}, {EndingKind::kFailed, 79, "b"}},
      {TrainerVerdict::kInexact, {true, true, "c"}, {EndingKind::kFailed, 80, "c"}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(EndOf(one.verdict, one.facts), one.ending) << one.ending.reason;
  }
}

// What the user can mend, what another try may mend, and what somebody newer does.
TEST(Ending, EachErrorHasItsExitCode) {
  const std::map<ErrorCode, int> cases = {
      {ErrorCode::kInvalidArgument, 64},
      {ErrorCode::kNotFound, 64},
      {ErrorCode::kCorrupt, 64},
      {ErrorCode::kMismatch, 64},
      {ErrorCode::kStale, 76},
      {ErrorCode::kInternal, 70},
      {ErrorCode::kIo, 70},
      {ErrorCode::kResourceExhausted, 70},
      {ErrorCode::kTimeout, 75},
      {ErrorCode::kPeerLost, 75},
      {ErrorCode::kAborted, 75},
      {ErrorCode::kUnavailable, 75},
      {ErrorCode::kAlreadyExists, 82},
  };
  for (const auto& [code, exit_code] : cases) {
    EXPECT_EQ(EndOf(Error(code, "why")), (Ending{EndingKind::kFailed, exit_code, "why"}));
  }
}

TEST(Ending, OwnFilesStayWrongAndAFullFolderMayPass) {
  const Error exists(ErrorCode::kAlreadyExists, "x");
  const Error full(ErrorCode::kResourceExhausted, "x");
  const Error unreadable(ErrorCode::kIo, "x");
  EXPECT_EQ(AsOwnFault(exists).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(AsOwnFault(full).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(AsOwnFault(unreadable).code(), ErrorCode::kIo);
  EXPECT_EQ(AsFolderFault(exists).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(AsFolderFault(full).code(), ErrorCode::kResourceExhausted);
}

// All sixteen.
TEST(SaverAtStop, WhoHoldsStateSavesWhereNobodyElseWould) {
  for (const bool is_chief : {false, true}) {
    for (const bool holds_state : {false, true}) {
      for (const bool keeps_checkpoints : {false, true}) {
        const StopFacts facts{is_chief, holds_state, keeps_checkpoints};
        const bool can = holds_state && keeps_checkpoints;
        EXPECT_EQ(SaverAtStop(StopMoment::kGangGoesOn, facts),
                  can && is_chief ? Saver::kThisRank : Saver::kNobody);
        EXPECT_EQ(SaverAtStop(StopMoment::kGangIsBroken, facts),
                  can ? Saver::kFirstOfTheHolders : Saver::kNobody);
      }
    }
  }
}

TEST(SaverAtStop, EndSaysWhetherTheCheckpointIsThere) {
  EXPECT_EQ(EndOfBrokenGang(true, OkStatus()),
            (Ending{EndingKind::kStopped, 42, "stopped on request after a checkpoint"}));
  EXPECT_EQ(EndOfBrokenGang(false, OkStatus()),
            (Ending{EndingKind::kStopped, kTerminated, "stopped on request"}));
  EXPECT_EQ(EndOfBrokenGang(true, Error(ErrorCode::kIo, "disk full")),
            (Ending{EndingKind::kStopped,
                    kTerminated,
                    "stopped on request; the last checkpoint could not be written: disk full"}));
}

}  // namespace
}  // namespace lockstep::runtime
