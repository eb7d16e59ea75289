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
#include "operator/scheduler/what_if.h"

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

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json ToJson(const WhatIfAnswer& answer) {
  Json pods = Json::object();
  for (const PlacedPod& placed : answer.pods) {
    pods[placed.pod] = placed.node;
  }
  return {{"nodeByPod", std::move(pods)},
          {"evicted", answer.evicted},
          {"displaced", answer.displaced},
          {"startsAt", answer.at ? Json(FormatRfc3339(*answer.at)) : Json(nullptr)},
          {"waitsAs", answer.missing ? Json(answer.missing->shortfall) : Json(nullptr)},
          {"position", answer.position ? Json(*answer.position) : Json(nullptr)}};
}

// Null where nothing is asked.
Result<Json> AskWhatIf(const LogArguments& arguments, const RoundLogPlayer& player) {
  if (arguments.gang.empty() || player.state() == nullptr) {
    return Json(nullptr);
  }
  const NodeLedger& nodes = player.state()->nodes();
  WhatIfChange change{
      arguments.gang, arguments.replicas, arguments.queue, arguments.priority, {}, {}};
  change.drained.insert(arguments.drained.begin(), arguments.drained.end());
  for (const auto& [name, count] : arguments.nodes_like) {
    const auto index = nodes.Find(name);
    if (!index || !nodes.is_known(*index)) {
      return Error(ErrorCode::kNotFound, "node " + name + " does not exist");
    }
    SnapshotNode node = nodes.FactsOf(*index);
    node.state = NodeState::kOpen;
    node.suspicion = 0;
    for (int64_t i = 1; i <= count; ++i) {
      node.name = name + "+" + std::to_string(i);
      change.further_nodes.push_back(node);
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const WhatIfAnswer answer,
                            WhatIf(*player.state(), change, player.now()));
  return ToJson(answer);
}

Json ToJson(const std::optional<RoundDifference>& difference) {
  if (!difference) {
    return nullptr;
  }
  return {{"line", difference->line},
          {"round", difference->round},
          {"decision", difference->decision},
          {"recorded", TextOrNull(difference->recorded)},
          {"decided", TextOrNull(difference->decided)}};
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
  const double elapsed_ms = MillisecondsSince(begin, clock);
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
      {"rounds", run.round_count},
      {"microsecondsPerRound", Rounded(elapsed_ms * 1'000 / static_cast<double>(run.round_count))},
      {"milliseconds", elapsed_ms},
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
  while (has_more && !player.difference() &&
         (arguments.at_round == 0 || player.round_count() < arguments.at_round)) {
    LOCKSTEP_ASSIGN_OR_RETURN(has_more, player.NextRound());
  }
  if (player.round_count() < arguments.at_round) {
    return Error(ErrorCode::kInvalidArgument,
                 "--at-round: " + std::to_string(arguments.at_round) + " found, the log has " +
                     std::to_string(player.round_count()) + " rounds");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Json what_if, AskWhatIf(arguments, player));
  return Json{{"replay", "log"},
              {"rounds", player.round_count()},
              {"events", player.event_count()},
              {"decisions", player.decision_count()},
              {"end", TextOrNull(player.end())},
              {"firstDifference", ToJson(player.difference())},
              {"whatIf", std::move(what_if)},
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
