#include "trainer-runtime/supervisor/hang/hang_watch.h"

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

// Looks whose share may be used at one: on a busy machine what such threads take comes in lumps, of
// which one look in twenty would have too many. Choice. And the kernel tells processor time in
// ticks of 10 ms, so one that uses next to nothing shows one now and then.
constexpr int kSharesKept = 3;
constexpr Duration kTicksKept = std::chrono::milliseconds(20);

// What two looks may be too late, each, for two ranks to be told apart.
constexpr int kLooksOfDoubt = 2;

// A watcher that was held up itself (a machine that slept, a cgroup that was frozen) knows nothing
// of the idleness of others.
constexpr int kOwnLooksMissed = 3;
constexpr Duration kOwnDelay = std::chrono::milliseconds(500);

// One that waits for a core at two looks is starved by others. At one look any program may be
// ready, by chance: one that sleeps in short turns is.
bool ShowsWork(const ProcessActivity& before, const ProcessActivity& now) {
  if (now.is_held_up || now.output_bytes != before.output_bytes ||
      now.report_count != before.report_count || (before.is_ready && now.is_ready) ||
      now.cpu.size() != before.cpu.size()) {
    return true;
  }
  return !std::equal(
      before.cpu.begin(), before.cpu.end(), now.cpu.begin(), [](const auto& old, const auto& one) {
        return old.first == one.first;
      });
}

// Precondition: of the same processes.
Duration UsedSince(const ProcessActivity& before, const ProcessActivity& now) {
  Duration used{0};
  for (auto old = before.cpu.begin(), one = now.cpu.begin(); one != now.cpu.end(); ++old, ++one) {
    used += one->second - old->second;
  }
  return used;
}

}  // namespace

HangWatch::HangWatch(Duration limit, int process_count)
    : limit_(limit),
      interval_(std::clamp(limit / kLooksPerLimit, kIntervalMin, kIntervalMax)),
      share_max_(std::max<Duration>(kSharesKept * interval_ / kIdleShare, kTicksKept)),
      watched_(static_cast<std::size_t>(process_count)) {
  LOCKSTEP_CHECK(limit > Duration(0), "the time limit for hangs must be above 0");
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
    const Duration share = between / kIdleShare;
    watched.share_left = std::min(watched.share_left + share, share_max_);
    if (knows_nothing || !seen[i].is_running || ShowsWork(watched.last, seen[i])) {
      watched.active_at = now;
    } else if (const Duration used = UsedSince(watched.last, seen[i]); used > watched.share_left) {
      watched.active_at = now;
      watched.share_left = Duration(0);
    } else {
      watched.share_left -= used;
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
