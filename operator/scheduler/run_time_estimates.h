#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace lockstep::control {

// Whose gang it is, and how large.
struct RunTimeKey {
  std::string user;
  int64_t gpu_count = 0;

  friend bool operator<(const RunTimeKey& a, const RunTimeKey& b) {
    return std::tie(a.user, a.gpu_count) < std::tie(b.user, b.gpu_count);
  }
};

// Learns how long gangs run, for those that do not declare it: so long that of the user's earlier
// gangs of that size `quantile_percent` of 100 have ended by then. Where fewer than `count_min` of
// those have ended, those of all users and that size count; then all; then `before_any`.
//
// Units: estimates are rounded up to a power of the square root of two seconds.
// Bounds: `keys_max` users and sizes, the first to come; old run times count half after every 1,024
// of a key.
class RunTimeEstimates {
 public:
  // Choices. Gangs that are thought shorter than they are make reservations late, longer ones fill
  // fewer gaps: docs/replay.md.
  struct Options {
    int64_t quantile_percent = 80;
    int64_t count_min = 8;
    std::chrono::milliseconds before_any = std::chrono::hours(24);
    std::size_t keys_max = 65'536;
  };

  explicit RunTimeEstimates(const Options& options) : options_(options) {}

  void Learn(const RunTimeKey& key, std::chrono::milliseconds run_time);
  std::chrono::milliseconds Estimate(const RunTimeKey& key) const;

 private:
  // Run times by the step that they are rounded up to, the last for all that are longer.
  struct Histogram {
    static constexpr std::size_t kSteps = 56;  // up to 2^27.5 s: six years
    std::array<int64_t, kSteps> counts{};
    int64_t total = 0;

    void Add(std::chrono::milliseconds run_time);
    std::chrono::milliseconds Quantile(int64_t percent) const;
  };

  Options options_;
  std::map<RunTimeKey, Histogram> by_key_;
  std::map<int64_t, Histogram> by_size_;
  Histogram all_;
};

}  // namespace lockstep::control
