#include "operator/replay/philly_replay.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/prng.h"
#include "operator/scheduler/round.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kMillisecondsPerSecond = 1'000;
constexpr double kSlowdownFloorSeconds = 600;
constexpr double kYearSeconds = 366.0 * 24 * 3'600;

double InSeconds(milliseconds duration) {
  return static_cast<double>(duration.count()) / kMillisecondsPerSecond;
}

// "2017-10-09 07:01:55".
std::optional<WallTime> ParseTimestamp(const std::string& text) {
  constexpr std::size_t kLength = 19;
  std::array<int, 6> parts{};  // year, month, day, hour, minute, second
  constexpr std::array<std::size_t, 6> kBegins = {0, 5, 8, 11, 14, 17};
  if (text.size() != kLength || text[4] != '-' || text[7] != '-' ||
      (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const char* const begin = text.data() + kBegins[i];
    const char* const end = begin + (i == 0 ? 4 : 2);
    const auto [stop, problem] = std::from_chars(begin, end, parts[i]);
    if (problem != std::errc() || stop != end || parts[i] < 0) {
      return std::nullopt;
    }
  }
  const std::chrono::year_month_day day{std::chrono::year{parts[0]},
                                        std::chrono::month{static_cast<unsigned>(parts[1])},
                                        std::chrono::day{static_cast<unsigned>(parts[2])}};
  if (!day.ok() || parts[3] > 23 || parts[4] > 59 || parts[5] > 59) {
    return std::nullopt;
  }
  return WallTime(std::chrono::sys_days(day)) + std::chrono::hours(parts[3]) +
         std::chrono::minutes(parts[4]) + std::chrono::seconds(parts[5]);
}

std::size_t SizeClassOf(int64_t gpu_count) {
  if (gpu_count >= 16) {
    return 4;
  }
  if (gpu_count >= 8) {
    return 3;
  }
  return gpu_count >= 2 ? 2 : 1;
}

WaitSummary Summarize(std::vector<milliseconds> waits) {
  WaitSummary summary;
  if (waits.empty()) {
    return summary;
  }
  std::sort(waits.begin(), waits.end());
  milliseconds sum{};
  for (const milliseconds wait : waits) {
    sum += wait;
  }
  const auto at_share = [&](std::size_t percent) {
    return InSeconds(waits[std::min(waits.size() - 1, waits.size() * percent / 100)]);
  };
  summary.job_count = static_cast<int64_t>(waits.size());
  summary.mean_seconds = InSeconds(sum) / static_cast<double>(waits.size());
  summary.p90_seconds = at_share(90);
  summary.p99_seconds = at_share(99);
  summary.max_seconds = InSeconds(waits.back());
  return summary;
}

SnapshotNode MakeNode(int64_t index, int64_t gpu_count) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "node-%05d", static_cast<int>(index));
  SnapshotNode node;
  node.name = name.data();
  node.allocatable.gpu_count = gpu_count;
  return node;
}

// In the order of the trace, also where names decide.
std::string JobName(std::size_t index) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "job-%08zu", index);
  return name.data();
}

std::vector<PodClass> MakeClasses(int64_t gpu_count, int64_t gpus_per_node) {
  std::vector<PodClass> classes;
  const auto add = [&](const std::string& name, int64_t pods, int64_t gpus) {
    if (pods == 0 || gpus == 0) {
      return;
    }
    PodClass pod_class;
    pod_class.name = name;
    for (int64_t i = 0; i < pods; ++i) {
      pod_class.pods.push_back(name + "-" + std::to_string(i));
    }
    pod_class.request.gpu_count = gpus;
    classes.push_back(std::move(pod_class));
  };
  add("whole", gpu_count / gpus_per_node, gpus_per_node);
  add("rest", 1, gpu_count % gpus_per_node);
  return classes;
}

class PhillyReplay {
 public:
  PhillyReplay(const std::vector<PhillyJob>& jobs, const PhillyOptions& options)
      : jobs_(jobs), options_(options), state_({}), started_(jobs.size()) {
    for (int64_t i = 0; i < options.node_count; ++i) {
      state_.SetNode(MakeNode(i, options.gpus_per_node));
    }
  }

  PhillyRun Run() {
    Prng prng(options_.seed);
    PhillyRun run;
    std::size_t next = 0;
    while (next < jobs_.size() || !ends_.empty()) {
      WallTime now = next < jobs_.size() ? jobs_[next].submitted : ends_.begin()->first;
      if (!ends_.empty()) {
        now = std::min(now, ends_.begin()->first);
      }
      for (; !ends_.empty() && ends_.begin()->first <= now; ends_.erase(ends_.begin())) {
        End(ends_.begin()->second);
      }
      for (; next < jobs_.size() && jobs_[next].submitted <= now; ++next) {
        Submit(next, &prng);
      }
      ++run.round_count;
      const RoundResult result = Round(&state_, now, &memory_);
      Commit(result, now, &state_);
      for (const Grant& grant : result.grants) {
        Start(index_by_name_.at(grant.gang), grant.pods, now);
      }
    }
    LOCKSTEP_CHECK(state_.gangs().empty(), "jobs wait although no job runs");
    Account(&run);
    return run;
  }

 private:
  void Submit(std::size_t index, Prng* prng) {
    const PhillyJob& job = jobs_[index];
    GangRequest request;
    request.name = JobName(index);
    request.gang.classes = MakeClasses(job.gpu_count, options_.gpus_per_node);
    request.since = job.submitted;
    if (options_.estimates.is_told) {
      request.run_time_max = EstimateOf(job, prng);
    }
    index_by_name_.emplace(request.name, index);
    state_.Submit(request);
  }

  seconds EstimateOf(const PhillyJob& job, Prng* prng) const {
    const EstimateErrors& errors = options_.estimates;
    const double factor = errors.low + (errors.high - errors.low) * prng->Unit();
    return std::max(seconds(1), seconds(std::llround(std::ceil(InSeconds(job.duration) * factor))));
  }

  // The ledger of this place is its own: no plan can give away what is not there.
  void Start(std::size_t index, const PlacedPods& pods, WallTime now) {
    const int64_t gpus_per_node = options_.gpus_per_node;
    int64_t missing = jobs_[index].gpu_count;
    for (const auto& [pod, node] : pods) {
      const int64_t gpus =
          pod.starts_with("whole") ? gpus_per_node : jobs_[index].gpu_count % gpus_per_node;
      int64_t& used = used_by_node_[node];
      used += gpus;
      LOCKSTEP_CHECK(used <= gpus_per_node, node + ": more GPUs are assigned than the node has");
      missing -= gpus;
      held_[index].emplace_back(node, gpus);
    }
    LOCKSTEP_CHECK(missing == 0, "a job starts with fewer GPUs than it needs");
    started_[index] = now;
    ends_.emplace(now + jobs_[index].duration, index);
  }

  void End(std::size_t index) {
    for (const auto& [node, gpus] : held_.at(index)) {
      used_by_node_[node] -= gpus;
    }
    held_.erase(index);
    index_by_name_.erase(JobName(index));
    state_.Remove(JobName(index));
  }

  void Account(PhillyRun* run) const {
    std::array<std::vector<milliseconds>, kSizeClasses.size()> waits;
    double completion_seconds = 0;
    double slowdown = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const milliseconds wait = started_[i] - jobs_[i].submitted;
      waits[0].push_back(wait);
      waits[SizeClassOf(jobs_[i].gpu_count)].push_back(wait);
      const double all = InSeconds(wait + jobs_[i].duration);
      completion_seconds += all;
      slowdown +=
          std::max(1.0, all / std::max(kSlowdownFloorSeconds, InSeconds(jobs_[i].duration)));
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      run->waits[i] = Summarize(std::move(waits[i]));
    }
    run->mean_completion_seconds = completion_seconds / static_cast<double>(jobs_.size());
    run->bounded_slowdown = slowdown / static_cast<double>(jobs_.size());
  }

  const std::vector<PhillyJob>& jobs_;
  const PhillyOptions& options_;
  ClusterState state_;
  RoundMemory memory_;
  std::vector<WallTime> started_;
  std::set<std::pair<WallTime, std::size_t>> ends_;
  std::map<std::string, std::size_t> index_by_name_;
  std::map<std::string, int64_t> used_by_node_;
  std::map<std::size_t, std::vector<std::pair<std::string, int64_t>>> held_;
};

}  // namespace

Result<std::vector<PhillyJob>> ReadPhillyJobs(const CsvTable& table, int64_t gpus_max) {
  std::vector<PhillyJob> jobs;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    PhillyJob job;
    const std::optional<WallTime> submitted = ParseTimestamp(table.Text(row, "timestamp"));
    if (!submitted) {
      return table.Wrong(row, "timestamp", "a time such as 2017-10-09 07:01:55");
    }
    job.submitted = *submitted;
    LOCKSTEP_ASSIGN_OR_RETURN(const double seconds, table.Number(row, "duration", 0, kYearSeconds));
    job.duration = milliseconds(std::llround(seconds * kMillisecondsPerSecond));
    LOCKSTEP_ASSIGN_OR_RETURN(job.gpu_count, table.Int(row, "num_gpus", 1, gpus_max));
    jobs.push_back(std::move(job));
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const PhillyJob& a, const PhillyJob& b) {
    return a.submitted < b.submitted;
  });
  return jobs;
}

Result<EstimateErrors> EstimateErrors::Parse(std::string_view text) {
  if (text == "exact" || text == "none") {
    return EstimateErrors{1, 1, text == "exact"};
  }
  const Error wrong(
      ErrorCode::kInvalidArgument,
      "\"" + std::string(text) +
          "\" found, expected exact, none, or U with two numbers of at least 1, such as U1-5");
  const std::size_t dash = text.find('-');
  if (text.empty() || text.front() != 'U' || dash == std::string_view::npos) {
    return wrong;
  }
  EstimateErrors errors;
  const auto read = [](std::string_view part, double* value) {
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), *value);
    return problem == std::errc() && end == part.data() + part.size() && std::isfinite(*value);
  };
  if (!read(text.substr(1, dash - 1), &errors.low) || !read(text.substr(dash + 1), &errors.high) ||
      errors.low < 1 || errors.high < errors.low) {
    return wrong;
  }
  return errors;
}

PhillyRun ReplayPhilly(const std::vector<PhillyJob>& jobs, const PhillyOptions& options) {
  return PhillyReplay(jobs, options).Run();
}

}  // namespace lockstep::control
