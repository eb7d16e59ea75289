#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/replay/csv_table.h"

namespace lockstep::control {

struct PhillyJob {
  WallTime submitted;
  std::chrono::milliseconds duration{};
  int64_t gpu_count = 0;
};

// Jobs in the order in which they came. Source of the form: Microsoft's Philly trace as Sia's
// artifact keeps it.
// Errors: those of CsvTable; a job of more than `gpus_max` GPUs.
Result<std::vector<PhillyJob>> ReadPhillyJobs(const CsvTable& table, int64_t gpus_max);

// By which limit jobs are stopped, as their owners tell: their run time times a factor, uniform in
// [low, high]; or by none.
struct EstimateErrors {
  double low = 1;
  double high = 1;
  bool is_told = true;

  // "exact", "U1-5" or "none". Errors: kInvalidArgument.
  static Result<EstimateErrors> Parse(std::string_view text);
};

struct PhillyOptions {
  int64_t node_count = 80;
  int64_t gpus_per_node = 8;
  EstimateErrors estimates;
  uint64_t seed = 1;  // of the factors
};

struct WaitSummary {
  int64_t job_count = 0;
  double mean_seconds = 0;
  double p90_seconds = 0;
  double p99_seconds = 0;
  double max_seconds = 0;
};

// Jobs by their GPUs; the first class is all of them.
inline constexpr std::array<std::string_view, 5> kSizeClasses = {
    "all", "1", "2-7", "8-15", "16 and more"};

struct PhillyRun {
  std::array<WaitSummary, kSizeClasses.size()> waits;  // by size class
  double mean_completion_seconds = 0;                  // from when it came until it ended
  double bounded_slowdown = 0;  // that over its run time, which counts as 10 min at least
  int64_t round_count = 0;
};

// Runs all jobs on nodes of GPUs: a job of at most one node's GPUs stands on one node; a larger one
// on whole nodes, and one more for what remains. None is moved or stopped.
PhillyRun ReplayPhilly(const std::vector<PhillyJob>& jobs, const PhillyOptions& options);

}  // namespace lockstep::control
