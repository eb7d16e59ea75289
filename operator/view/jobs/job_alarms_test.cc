#include "operator/view/jobs/job_alarms.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

const JobId kFirst{"default", "first"};
const JobId kSecond{"default", "second"};

WallTime At(int64_t second) {
  return WallTime{std::chrono::seconds(second)};
}

TEST(JobAlarms, EachIsDueOnceAndTheNewestCounts) {
  JobAlarms alarms;
  EXPECT_FALSE(alarms.First().has_value());
  alarms.Set(kFirst, At(10));
  alarms.Set(kSecond, At(20));
  alarms.Set(kFirst, At(30));
  EXPECT_EQ(alarms.First(), At(20));
  EXPECT_TRUE(alarms.TakeDue(At(19)).empty());
  EXPECT_EQ(alarms.TakeDue(At(20)), std::vector<JobId>{kSecond});
  EXPECT_TRUE(alarms.TakeDue(At(20)).empty());
  alarms.Set(kFirst, std::nullopt);
  EXPECT_FALSE(alarms.First().has_value());
}

}  // namespace
}  // namespace lockstep::control
