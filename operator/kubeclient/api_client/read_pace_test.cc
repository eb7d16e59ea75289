#include "operator/kubeclient/api_client/read_pace.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kInterval = milliseconds(10);
constexpr Duration kHandling = microseconds(100);

class ReadPaceTest : public ::testing::Test {
 protected:
  ReadPaceTest() { pace_.Begin(now_); }

  // Bytes come after that long a wait: how long nothing is read then.
  Duration BytesAfter(Duration wait) {
    const TimePoint came = now_ + wait;
    now_ = came + kHandling;
    return pace_.AfterBytes(came, now_);
  }

  TimePoint now_{std::chrono::hours(1)};
  ReadPace pace_{kInterval};
};

TEST_F(ReadPaceTest, EventsFarApartAreReadAsTheyCome) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(BytesAfter(kInterval), Duration::zero());
  }
}

TEST_F(ReadPaceTest, WhatFollowsOnTheHeelsOfAnEventGathers) {
  EXPECT_EQ(BytesAfter(std::chrono::seconds(1)), Duration::zero());
  EXPECT_EQ(BytesAfter(milliseconds(3)), kInterval);
}

TEST_F(ReadPaceTest, WhatHasGatheredIsReadWithoutAPause) {
  BytesAfter(milliseconds(3));
  now_ += kInterval;
  pace_.Begin(now_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(BytesAfter(microseconds(50)), Duration::zero());
  }
  EXPECT_EQ(BytesAfter(milliseconds(3)), kInterval) << "the stream is as busy as before";
}

TEST_F(ReadPaceTest, TimeSpentOnBytesIsNoSilence) {
  BytesAfter(milliseconds(3));
  now_ += kInterval;
  pace_.Begin(now_);
  now_ += milliseconds(8);
  pace_.AfterBytes(now_, now_ + std::chrono::seconds(1));
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(BytesAfter(milliseconds(3)), kInterval);
}

TEST(ReadPace, WithoutAnIntervalNothingGathers) {
  ReadPace pace{Duration::zero()};
  const TimePoint now{std::chrono::hours(1)};
  pace.Begin(now);
  EXPECT_EQ(pace.AfterBytes(now + milliseconds(3), now + milliseconds(4)), Duration::zero());
}

}  // namespace
}  // namespace lockstep::control
