#include "trainer-runtime/supervisor/hang_watch.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// Looks within a limit: how exact it is, and how well ranks can be told apart. Choice.
constexpr int kLooksPerLimit = 20;
constexpr Duration kIntervalMin = std::chrono::milliseconds(50);
constexpr Duration kIntervalMax = std::chrono::seconds(5);

// Of one core, that threads of libraries use while a program waits: those of liblockstep's
// heartbeat take 0.02 %, gRPC's and NCCL's watchdogs 0.1 to 0.5 %. Choice.
constexpr int kIdleShare = 100;

// What two looks may be too late, each, for two ranks to be told apart.
constexpr int kLooksOfDoubt = 2;

// A watcher that was held up itself (a machine that slept, a cgroup that was frozen) knows nothing
// of the idleness of others.
constexpr int kOwnLooksMissed = 3;
constexpr Duration kOwnDelay = std::chrono::milliseconds(500);

// One that waits for a core at two looks is starved by others. At one look any program may be
// ready, by chance: one that sleeps in short turns is.
bool IsActive(const ProcessActivity& before, const ProcessActivity& now, Duration between) {
  if (now.is_held_up || now.output_bytes != before.output_bytes ||
      now.report_count != before.report_count || (before.is_ready && now.is_ready) ||
      now.cpu.size() != before.cpu.size()) {
    return true;
  }
  Duration used{0};
  for (auto old = before.cpu.begin(), one = now.cpu.begin(); one != now.cpu.end(); ++old, ++one) {
    if (old->first != one->first) {
      return true;
    }
    used += one->second - old->second;
  }
  return used > between / kIdleShare;
}

}  // namespace

HangWatch::HangWatch(Duration limit, int process_count)
    : limit_(limit),
      interval_(std::clamp(limit / kLooksPerLimit, kIntervalMin, kIntervalMax)),
      watched_(static_cast<std::size_t>(process_count)) {
  LOCKSTEP_CHECK(limit > Duration(0), "a limit of nothing");
}

std::vector<HungProcess> HangWatch::Look(TimePoint now, const std::vector<ProcessActivity>& seen) {
  LOCKSTEP_CHECK(seen.size() == watched_.size(), std::to_string(seen.size()) + " processes seen");
  const Duration between = looked_at_.has_value() ? now - *looked_at_ : Duration(0);
  const bool knows_nothing =
      !looked_at_.has_value() || between > kOwnLooksMissed * interval_ + kOwnDelay;
  looked_at_ = now;
  std::vector<HungProcess> hung;
  bool is_any_over = false;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    Watched& watched = watched_[i];
    if (knows_nothing || !seen[i].is_running || IsActive(watched.last, seen[i], between)) {
      watched.active_at = now;
    }
    watched.last = seen[i];
    const Duration idle = now - watched.active_at;
    if (idle >= limit_) {
      hung.push_back({static_cast<int>(i), seen[i].is_stopped, idle});
      is_any_over = is_any_over || seen[i].is_stopped || idle >= limit_ + kLooksOfDoubt * interval_;
    }
  }
  return is_any_over ? hung : std::vector<HungProcess>();
}

std::vector<HungProcess> CulpritsAmong(const std::vector<HungProcess>& hung, Duration interval) {
  std::vector<HungProcess> stopped;
  std::copy_if(hung.begin(), hung.end(), std::back_inserter(stopped), [](const HungProcess& one) {
    return one.is_stopped;
  });
  if (!stopped.empty()) {
    return stopped;
  }
  std::vector<HungProcess> longest = hung;
  std::stable_sort(
      longest.begin(), longest.end(), [](const auto& a, const auto& b) { return a.idle > b.idle; });
  const bool is_one =
      longest.size() > 1 && longest[0].idle - longest[1].idle > kLooksOfDoubt * interval;
  return is_one ? std::vector<HungProcess>{longest.front()} : hung;
}

}  // namespace lockstep::runtime
