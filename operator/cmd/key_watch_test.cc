#include "operator/cmd/key_watch.h"

#include <chrono>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::seconds;

constexpr TimePoint kWatchStart{std::chrono::hours(1)};
const Status kShort = Error(ErrorCode::kCorrupt, "6 bytes found");
const Status kSecretsForbidden = Error(ErrorCode::kInvalidArgument, "secrets is forbidden");
const Status kSilent = Error(ErrorCode::kUnavailable, "connection refused");

TEST(KeyWatch, ReplicaThatStandsByKnowsThatItCouldNotLead) {
  KeyWatch watch;
  ASSERT_TRUE(watch.IsLookDue(kWatchStart));
  watch.OnLook(watch.LookBegins(), kShort, kWatchStart);
  EXPECT_EQ(watch.why(), "6 bytes found");
  EXPECT_FALSE(watch.IsLookDue(kWatchStart + seconds(9)));
  EXPECT_TRUE(watch.IsLookDue(kWatchStart + seconds(10)));
}

TEST(KeyWatch, WhatAnEarlierTryFoundIsForgottenWhenItHasBeenMended) {
  KeyWatch watch;
  watch.OnTry(kSecretsForbidden, kWatchStart);
  EXPECT_EQ(watch.why(), "secrets is forbidden");
  const TimePoint later = kWatchStart + seconds(10);
  ASSERT_TRUE(watch.IsLookDue(later)) << "the lease may have been lost meanwhile";
  watch.OnLook(watch.LookBegins(), OkStatus(), later);
  EXPECT_EQ(watch.why(), "");
}

TEST(KeyWatch, ServerThatDoesNotAnswerIsNoHindranceAndEndsNone) {
  KeyWatch watch;
  watch.OnTry(kSilent, kWatchStart);
  EXPECT_EQ(watch.why(), "");
  watch.OnTry(kShort, kWatchStart);
  watch.OnTry(kSilent, kWatchStart);
  EXPECT_EQ(watch.why(), "6 bytes found");
}

TEST(KeyWatch, AnswerThatIsOlderThanATryTellsNothing) {
  KeyWatch watch;
  const int64_t look = watch.LookBegins();
  EXPECT_EQ(watch.NextLook(), std::nullopt);
  watch.OnTry(OkStatus(), kWatchStart);
  watch.OnLook(look, kSecretsForbidden, kWatchStart);
  EXPECT_EQ(watch.why(), "");
}

}  // namespace
}  // namespace lockstep::control
