#include "operator/controller/put_back_pace.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const JobId kJob{"default", "mnist"};
constexpr TimePoint kStart{std::chrono::hours(1)};

TEST(PutBackPace, WhoInsistsIsAnsweredEverMoreSlowlyAndToldOfOnce) {
  PutBackPace pace;
  TimePoint now = kStart;
  std::vector<int64_t> delays;
  int told_count = 0;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(pace.NotBefore(kJob, now), std::nullopt);
    told_count += pace.Note(kJob, now) ? 1 : 0;
    const TimePoint next = pace.NotBefore(kJob, now).value();
    delays.push_back(std::chrono::duration_cast<seconds>(next - now).count());
    now = next;
  }
  EXPECT_EQ(delays, (std::vector<int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300}));
  EXPECT_EQ(told_count, 1);
  EXPECT_EQ(pace.NotBefore({"default", "other"}, kStart), std::nullopt);
}

TEST(PutBackPace, WhoHasStoppedIsForgotten) {
  PutBackPace pace;
  pace.Note(kJob, kStart);
  pace.Note(kJob, kStart + seconds(1));
  const TimePoint later = kStart + seconds(1) + minutes(10);
  EXPECT_TRUE(pace.Note(kJob, later));
  EXPECT_EQ(pace.NotBefore(kJob, later), later + seconds(1));
}

}  // namespace
}  // namespace lockstep::control
