#include "operator/cli/pods/creation_trouble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Optional;

const Error kNoRoom(ErrorCode::kResourceExhausted, "creating the log: No space left on device");

TimePoint AtSecond(int second) {
  return TimePoint() + seconds(second);
}

TEST(CreationTrouble, WhatNoLaterTryCuresEndsTheRunAtOnce) {
  CreationTrouble trouble;
  trouble.Note(Error(ErrorCode::kInvalidArgument, "create folder pods/a: Not a directory"),
               AtSecond(1));
  EXPECT_THAT(trouble.verdict(), Optional(HasSubstr("Not a directory")));
  EXPECT_EQ(trouble.TakeWarning(), std::nullopt);
}

TEST(CreationTrouble, WantOfRoomIsToldOnceAndTriedAgainAfterAPause) {
  CreationTrouble trouble;
  trouble.Note(kNoRoom, AtSecond(1));
  EXPECT_EQ(trouble.verdict(), std::nullopt);
  EXPECT_EQ(trouble.pause_end(), AtSecond(2));
  EXPECT_THAT(trouble.TakeWarning(), Optional(HasSubstr("No space left")));
  trouble.Note(kNoRoom, AtSecond(2));
  EXPECT_EQ(trouble.TakeWarning(), std::nullopt);
}

TEST(CreationTrouble, WantOfRoomThatStaysEndsTheRun) {
  CreationTrouble trouble;
  trouble.Note(kNoRoom, AtSecond(1));
  trouble.Note(kNoRoom, AtSecond(30));
  EXPECT_EQ(trouble.verdict(), std::nullopt);
  trouble.Note(kNoRoom, AtSecond(31));
  EXPECT_THAT(trouble.verdict(), Optional(HasSubstr("No space left on device (for 30 s)")));
}

TEST(CreationTrouble, RoomThatWasFoundBeginsTheWaitAnew) {
  CreationTrouble trouble;
  trouble.Note(kNoRoom, AtSecond(1));
  trouble.Note(std::nullopt, AtSecond(20));
  EXPECT_EQ(trouble.pause_end(), std::nullopt);
  trouble.Note(kNoRoom, AtSecond(40));
  EXPECT_EQ(trouble.verdict(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::control
