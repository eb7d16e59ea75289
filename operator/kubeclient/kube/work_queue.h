#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/time.h"

namespace lockstep::control::kube {

struct WorkQueueOptions {
  // A key that failed waits this long, twice as long each time, up to the maximum.
  // Source of the defaults: client-go's rate limiter of one key.
  Duration retry_delay_min = std::chrono::milliseconds(5);
  Duration retry_delay_max = std::chrono::seconds(1000);
};

// For the workqueue_* metrics.
struct WorkQueueCounts {
  int64_t adds = 0;     // keys that became due
  int64_t retries = 0;  // of keys that failed
};

// Which keys need work, in the order in which they became due. A key is there once, however often
// it is added, and is never handed out again before its work is done; what is added while it is
// worked on comes afterwards. Several keys may be worked on at once. Keys can also be made due
// later: the earlier of two moments counts.
//
// `Key` is ordered and copyable. Thread: one. Source: client-go's util/workqueue.
template <typename Key>
class WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options = {}) : options_(options) {}

  // The key is due now.
  void Add(const Key& key, TimePoint now) {
    CancelDelayed(key);
    if (const auto work = working_.find(key); work != working_.end()) {
      work->second = true;
    } else if (due_.try_emplace(key, now).second) {
      ++counts_.adds;
      order_.push_back(key);
    }
  }

  // The key becomes due at `when`, unless it is due already or earlier.
  void AddAt(const Key& key, TimePoint when) {
    if (due_.count(key) > 0) {
      return;
    }
    const auto known = delayed_at_.find(key);
    if (known != delayed_at_.end() && known->second <= when) {
      return;
    }
    CancelDelayed(key);
    delayed_at_[key] = when;
    delayed_.emplace(when, key);
  }

  // The work on the key failed: it becomes due after its back-off.
  void AddAfterFailure(const Key& key, TimePoint now) {
    ++counts_.retries;
    int& failures = failures_[key];
    Duration delay = options_.retry_delay_min;
    for (int i = 0; i < failures && delay < options_.retry_delay_max; ++i) {
      delay *= 2;
    }
    ++failures;
    AddAt(key, now + std::min(delay, options_.retry_delay_max));
  }

  // The work on the key went well: its back-off begins anew.
  void Forget(const Key& key) { failures_.erase(key); }

  struct Work {
    Key key;
    Duration waited{};  // since it became due
  };

  // The next key that is due; null when there is none. Done has to follow.
  std::optional<Work> Take(TimePoint now) {
    while (!delayed_.empty() && delayed_.begin()->first <= now) {
      const auto [when, key] = *delayed_.begin();
      Add(key, when);
    }
    if (order_.empty()) {
      return std::nullopt;
    }
    Key key = std::move(order_.front());
    order_.pop_front();
    const Duration waited = now - due_.extract(key).mapped();
    working_.emplace(key, false);
    return Work{std::move(key), waited};
  }

  // The work on the key is over. Precondition (checked): Take has handed it out.
  void Done(const Key& key, TimePoint now) {
    const auto work = working_.extract(key);
    LOCKSTEP_CHECK(!work.empty(), "Done must follow Take");
    if (work.mapped()) {
      Add(key, now);
    }
  }

  // When Take has something: the past while a key is due, null if never.
  std::optional<TimePoint> NextDue() const {
    if (!order_.empty()) {
      return due_.at(order_.front());
    }
    return delayed_.empty() ? std::nullopt : std::optional(delayed_.begin()->first);
  }

  std::size_t depth() const { return due_.size(); }

  const WorkQueueCounts& counts() const { return counts_; }

 private:
  void CancelDelayed(const Key& key) {
    const auto known = delayed_at_.find(key);
    if (known != delayed_at_.end()) {
      delayed_.erase({known->second, key});
      delayed_at_.erase(known);
    }
  }

  WorkQueueOptions options_;
  WorkQueueCounts counts_;
  std::map<Key, TimePoint> due_;  // since when
  std::deque<Key> order_;         // of those that are due
  std::set<std::pair<TimePoint, Key>> delayed_;
  std::map<Key, TimePoint> delayed_at_;
  std::map<Key, int> failures_;  // in a row
  std::map<Key, bool> working_;  // and whether it was added meanwhile
};

}  // namespace lockstep::control::kube
