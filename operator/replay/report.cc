#include "operator/replay/report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <sys/resource.h>

#include "common/base/check.h"
#include "operator/replay/csv_table.h"
#include "operator/replay/openb_replay.h"
#include "operator/replay/shapes.h"
#include "operator/round_log/round_log_player.h"

namespace lockstep::control {
namespace {

// Thousandths are more than what is meant.
double Rounded(double value) {
  constexpr double kSteps = 1'000;
  return std::round(value * kSteps) / kSteps;
}

double MillisecondsSince(TimePoint begin, const Clock& clock) {
  return Rounded(ToSeconds(clock.Now() - begin) * 1'000);
}

// The most that this process has held. Source: getrusage, in KiB on Linux.
int64_t PeakResidentBytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1'024;
}

double Percent(int64_t part, int64_t all) {
  return 100 * static_cast<double>(part) / static_cast<double>(all);
}

std::string PolicyWord(PlacementPolicyKind kind) {
  switch (kind) {
    case PlacementPolicyKind::kWorth:
      return "worth";
    case PlacementPolicyKind::kFgd:
      return "fgd";
    case PlacementPolicyKind::kBestFit:
      return "best-fit";
  }
  return "";
}

std::unique_ptr<PlacementPolicy> MakePolicy(PlacementPolicyKind kind) {
  switch (kind) {
    case PlacementPolicyKind::kFgd:
      return MakeFgdPolicy();
    case PlacementPolicyKind::kBestFit:
      return MakeBestFitPolicy();
    case PlacementPolicyKind::kWorth:
      break;
  }
  return MakeWorthPolicy();
}

Json ToJson(const WaitSummary& waits) {
  return {{"jobs", waits.job_count},
          {"mean", Rounded(waits.mean_seconds)},
          {"p90", Rounded(waits.p90_seconds)},
          {"p99", Rounded(waits.p99_seconds)},
          {"max", Rounded(waits.max_seconds)}};
}

Json ToJson(const std::optional<RoundDifference>& difference) {
  if (!difference) {
    return nullptr;
  }
  const auto text = [](const std::string& one) { return one.empty() ? Json(nullptr) : Json(one); };
  return {{"line", difference->line},
          {"round", difference->round},
          {"decision", difference->decision},
          {"recorded", text(difference->recorded)},
          {"decided", text(difference->decided)}};
}

}  // namespace

Result<Json> ReplayAndReport(const OpenbArguments& arguments, const Clock& clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const CsvTable nodes,
      CsvTable::Read(arguments.nodes_file, {"sn", "cpu_milli", "memory_mib", "gpu", "model"}));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const CsvTable pods,
      CsvTable::Read(arguments.pods_file, {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const OpenbTrace trace, OpenbTrace::FromTables(nodes, pods));
  Json seeds = Json::array();
  double sum_percent = 0;
  const TimePoint begin = clock.Now();
  for (int64_t i = 0; i < arguments.seed_count; ++i) {
    const TimePoint run_begin = clock.Now();
    const std::unique_ptr<PlacementPolicy> policy = MakePolicy(arguments.policy);
    const OpenbRun run = ReplayOpenb(
        trace, arguments.first_seed + static_cast<uint64_t>(i), arguments.tune, policy.get());
    const double percent = Percent(run.allocated_milli, trace.device_milli_total);
    sum_percent += percent;
    seeds.push_back({{"seed", run.seed},
                     {"pods", run.pod_count},
                     {"failed", run.failed_count},
                     {"allocationPercent", Rounded(percent)},
                     {"milliseconds", MillisecondsSince(run_begin, clock)}});
  }
  return Json{
      {"replay", "openb"},
      {"policy", PolicyWord(arguments.policy)},
      {"nodes", trace.nodes.size()},
      {"gpus", trace.device_milli_total / kDeviceMilli},
      {"tune", arguments.tune},
      {"meanAllocationPercent", Rounded(sum_percent / static_cast<double>(arguments.seed_count))},
      {"seeds", std::move(seeds)},
      {"milliseconds", MillisecondsSince(begin, clock)},
      {"peakResidentBytes", PeakResidentBytes()}};
}

Result<Json> ReplayAndReport(const PhillyArguments& arguments, const Clock& clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const CsvTable table,
      CsvTable::Read(arguments.trace_file, {"timestamp", "duration", "num_gpus"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<PhillyJob> jobs,
                            ReadPhillyJobs(table, arguments.gpu_count));
  const TimePoint begin = clock.Now();
  const PhillyRun run = ReplayPhilly(jobs, arguments.options);
  const double milliseconds = MillisecondsSince(begin, clock);
  Json waits = Json::object();
  for (std::size_t i = 0; i < kSizeClasses.size(); ++i) {
    waits[std::string(kSizeClasses[i])] = ToJson(run.waits[i]);
  }
  return Json{
      {"replay", "philly"},
      {"gpus", arguments.gpu_count},
      {"jobs", jobs.size()},
      {"seed", arguments.options.seed},
      {"waitSecondsByGpus", std::move(waits)},
      {"meanCompletionSeconds", Rounded(run.mean_completion_seconds)},
      {"boundedSlowdown", Rounded(run.bounded_slowdown)},
      {"passes", run.pass_count},
      {"microsecondsPerPass", Rounded(milliseconds * 1'000 / static_cast<double>(run.pass_count))},
      {"milliseconds", milliseconds},
      {"peakResidentBytes", PeakResidentBytes()}};
}

Result<Json> ReplayAndReport(const LogArguments& arguments, const Clock& clock) {
  std::ifstream input(arguments.file, std::ios::binary);
  if (!input.is_open()) {
    return SystemError(errno, "open " + arguments.file);
  }
  const TimePoint begin = clock.Now();
  RoundLogPlayer player(&input, arguments.file);
  bool has_more = true;
  while (has_more && !player.difference()) {
    LOCKSTEP_ASSIGN_OR_RETURN(has_more, player.NextRound());
  }
  return Json{{"replay", "log"},
              {"rounds", player.round_count()},
              {"events", player.event_count()},
              {"decisions", player.decision_count()},
              {"end", player.end().empty() ? Json(nullptr) : Json(player.end())},
              {"firstDifference", ToJson(player.difference())},
              {"milliseconds", MillisecondsSince(begin, clock)},
              {"peakResidentBytes", PeakResidentBytes()}};
}

Result<Json> ReplayAndReport(const ShapeArguments& arguments, const Clock& clock) {
  const std::vector<Shape>& shapes = Shapes();
  const auto shape = std::find_if(
      shapes.begin(), shapes.end(), [&](const Shape& one) { return one.name == arguments.name; });
  LOCKSTEP_CHECK(shape != shapes.end(), arguments.name);
  const TimePoint begin = clock.Now();
  const ShapeRun median = MedianRun(*shape, arguments.run_count);
  if (!median.wrong.empty()) {
    return Error(ErrorCode::kInternal, "shape " + shape->name + ": " + median.wrong);
  }
  const Json p99 = median.p99_milliseconds > 0 ? Json(Rounded(median.p99_milliseconds)) : Json();
  const double pods_per_second =
      static_cast<double>(median.pods) * 1'000 / std::max(median.milliseconds, 1e-3);
  const Json rate =
      median.pods > 0 ? Json(static_cast<int64_t>(std::round(pods_per_second))) : Json(nullptr);
  return Json{{"replay", "shape"},
              {"shape", shape->name},
              {"what", shape->what},
              {"others", shape->anchor},
              {"runs", arguments.run_count},
              {"medianCpuMilliseconds", Rounded(median.milliseconds)},
              {"medianWallMilliseconds", Rounded(median.wall_milliseconds)},
              {"p99CpuMilliseconds", p99},
              {"pods", median.pods},
              {"podsPerCpuSecond", rate},
              {"milliseconds", MillisecondsSince(begin, clock)},
              {"peakResidentBytes", PeakResidentBytes()}};
}

}  // namespace lockstep::control
