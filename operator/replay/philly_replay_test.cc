#include "operator/replay/philly_replay.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

Result<std::vector<PhillyJob>> ReadJobs(const std::string& lines) {
  const auto table = CsvTable::Parse("t.csv", "timestamp,duration,num_gpus\n" + lines, {});
  return ReadPhillyJobs(*table, 16);
}

std::string JobProblemOf(const std::string& line) {
  const auto jobs = ReadJobs(line + "\n");
  return jobs.ok() ? "" : jobs.error().ToString();
}

TEST(ReadPhillyJobs, SortsByTime) {
  const auto jobs = ReadJobs("2017-10-09 07:01:55,66.5,1\n2016-02-29 23:59:59,10,16\n");
  ASSERT_TRUE(jobs.ok()) << jobs.error().ToString();
  EXPECT_EQ((*jobs)[0].gpu_count, 16);
  EXPECT_EQ((*jobs)[1].duration, std::chrono::milliseconds(66'500));
  EXPECT_EQ(FormatRfc3339((*jobs)[0].submitted), "2016-02-29T23:59:59.000Z");
}

TEST(ReadPhillyJobs, WrongValuesAreNamed) {
  EXPECT_EQ(JobProblemOf("2017-02-29 07:01:55,66,1"),
            "t.csv:2: timestamp: \"2017-02-29 07:01:55\" found, expected a time such as "
            "2017-10-09 07:01:55");
  EXPECT_EQ(JobProblemOf("2017-02-28 7:01:55,66,1").substr(0, 17), "t.csv:2: timestam");
  EXPECT_EQ(JobProblemOf("2017-02-28 07:01:55,-1,1"),
            "t.csv:2: duration: \"-1\" found, expected a number from 0 to 31622400");
  EXPECT_EQ(JobProblemOf("2017-02-28 07:01:55,1,17"),
            "t.csv:2: num_gpus: \"17\" found, expected a whole number from 1 to 16");
}

TEST(EstimateErrors, ReadsExactAndRanges) {
  EXPECT_EQ(EstimateErrors::Parse("exact")->high, 1);
  EXPECT_EQ(EstimateErrors::Parse("U1-5")->high, 5);
  EXPECT_EQ(EstimateErrors::Parse("U1.5-2")->low, 1.5);
  for (const char* wrong : {"", "U", "U1", "1-5", "U5-1", "U0.5-2", "U1-x", "Unan-nan"}) {
    EXPECT_FALSE(EstimateErrors::Parse(wrong).ok()) << wrong;
  }
}

TEST(ReplayPhilly, WaitsAreCountedBySize) {
  const auto jobs = ReadJobs(
      "2017-10-09 00:00:00,100,16\n"
      "2017-10-09 00:00:10,50,1\n"
      "2017-10-09 00:00:20,50,12\n");
  PhillyOptions options;
  options.node_count = 2;
  const PhillyRun run = ReplayPhilly(*jobs, options);
  EXPECT_EQ(run.waits[0].job_count, 3);
  EXPECT_EQ(run.waits[4].mean_seconds, 0);   // the 16
  EXPECT_EQ(run.waits[1].mean_seconds, 90);  // the 1
  EXPECT_EQ(run.waits[3].mean_seconds, 80);  // the 12, beside it: 8 + 4 of 8
  EXPECT_EQ(run.waits[0].max_seconds, 90);
  EXPECT_NEAR(run.mean_completion_seconds, (100 + 140 + 130) / 3.0, 1e-9);
  EXPECT_EQ(run.bounded_slowdown, 1);
}

// One node: the short passes only where it is known that it ends before the wide needs its room.
TEST(ReplayPhilly, NobodyPassesWithoutLimits) {
  const auto jobs = ReadJobs(
      "2017-10-09 00:00:00,100,4\n"
      "2017-10-09 00:00:10,100,8\n"
      "2017-10-09 00:00:20,50,4\n");
  PhillyOptions options;
  options.node_count = 1;
  EXPECT_EQ(ReplayPhilly(*jobs, options).waits[2].max_seconds, 0);
  options.estimates = *EstimateErrors::Parse("none");
  EXPECT_EQ(ReplayPhilly(*jobs, options).waits[2].max_seconds, 180);
}

TEST(ReplayPhilly, SeedDecidesTheEstimates) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += "2017-10-09 00:00:" + std::to_string(10 + i % 50) + "," +
             std::to_string(100 + 37 * i % 900) + "," + std::to_string(1 + 5 * i % 16) + "\n";
  }
  const auto jobs = ReadJobs(lines);
  PhillyOptions options;
  options.node_count = 2;
  options.estimates = {1, 5};
  const double once = ReplayPhilly(*jobs, options).waits[0].mean_seconds;
  EXPECT_EQ(ReplayPhilly(*jobs, options).waits[0].mean_seconds, once);
  options.seed = 2;
  EXPECT_NE(ReplayPhilly(*jobs, options).waits[0].mean_seconds, once);
}

}  // namespace
}  // namespace lockstep::control
