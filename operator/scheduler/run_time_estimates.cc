#include "operator/scheduler/run_time_estimates.h"

#include <numeric>

namespace lockstep::control {
namespace {

constexpr int64_t kHalvingCount = 1'024;

// 1 s, 1.414 s, 2 s, 2.828 s, ...
std::chrono::milliseconds StepEnd(std::size_t step) {
  constexpr int64_t kOdd = 1'414;  // thousandths of the square root of two
  const int64_t whole = int64_t{1} << (step / 2);
  return std::chrono::milliseconds(whole * (step % 2 == 0 ? 1'000 : kOdd));
}

}  // namespace

void RunTimeEstimates::Histogram::Add(std::chrono::milliseconds run_time) {
  std::size_t step = 0;
  while (step + 1 < kSteps && StepEnd(step) < run_time) {
    ++step;
  }
  ++counts[step];
  if (++total >= kHalvingCount) {
    for (int64_t& count : counts) {
      count = (count + 1) / 2;
    }
    total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  }
}

std::chrono::milliseconds RunTimeEstimates::Histogram::Quantile(int64_t percent) const {
  int64_t reached = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    reached += counts[step];
    if (reached * 100 >= total * percent) {
      return StepEnd(step);
    }
  }
  return StepEnd(kSteps - 1);
}

void RunTimeEstimates::Learn(const RunTimeKey& key, std::chrono::milliseconds run_time) {
  if (by_key_.size() < options_.keys_max || by_key_.count(key) > 0) {
    by_key_[key].Add(run_time);
  }
  if (by_size_.size() < options_.keys_max || by_size_.count(key.gpu_count) > 0) {
    by_size_[key.gpu_count].Add(run_time);
  }
  all_.Add(run_time);
}

std::chrono::milliseconds RunTimeEstimates::Estimate(const RunTimeKey& key) const {
  const auto of_key = by_key_.find(key);
  if (of_key != by_key_.end() && of_key->second.total >= options_.count_min) {
    return of_key->second.Quantile(options_.quantile_percent);
  }
  const auto of_size = by_size_.find(key.gpu_count);
  if (of_size != by_size_.end() && of_size->second.total >= options_.count_min) {
    return of_size->second.Quantile(options_.quantile_percent);
  }
  return all_.total >= options_.count_min ? all_.Quantile(options_.quantile_percent)
                                          : options_.before_any;
}

}  // namespace lockstep::control
