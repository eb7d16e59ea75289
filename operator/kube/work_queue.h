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
  enum class Priority {
    kLow,  // nothing has changed as far as is known: the first list
    kNormal,
  };

  explicit WorkQueue(WorkQueueOptions options = {}) : options_(options) {}

  // The key is due now. Of two priorities the higher counts.
  void Add(const Key& key, TimePoint now, Priority priority = Priority::kNormal) {
    CancelDelayed(key);
    if (const auto work = working_.find(key); work != working_.end()) {
      work->second = Higher(work->second, priority);
      return;
    }
    const auto [entry, is_new] = due_.try_emplace(key, Due{priority, now});
    if (is_new) {
      ++counts_.adds;
    } else if (entry->second.priority == priority || priority == Priority::kLow) {
      return;
    }
    entry->second.priority = priority;  // a place in the lower queue, if any, is skipped later
    QueueOf(priority).push_back(key);
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

  // The key is gone: nothing is due for it any more.
  void Remove(const Key& key) {
    Forget(key);
    CancelDelayed(key);
    due_.erase(key);
    if (const auto work = working_.find(key); work != working_.end()) {
      work->second.reset();
    }
  }

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
    for (const Priority priority : {Priority::kNormal, Priority::kLow}) {
      std::deque<Key>& queue = QueueOf(priority);
      while (!queue.empty()) {
        Key key = std::move(queue.front());
        queue.pop_front();
        const auto entry = due_.find(key);
        if (entry == due_.end() || entry->second.priority != priority) {
          continue;
        }
        const Duration waited = now - entry->second.since;
        due_.erase(entry);
        working_.emplace(key, std::nullopt);
        return Work{std::move(key), waited};
      }
    }
    return std::nullopt;
  }

  // The work on the key is over. Precondition (checked): Take has handed it out.
  void Done(const Key& key, TimePoint now) {
    const auto work = working_.extract(key);
    LOCKSTEP_CHECK(!work.empty(), "Done follows Take");
    if (const std::optional<Priority> priority = work.mapped()) {
      Add(key, now, *priority);
    }
  }

  // When Take has something: the past while a key is due, null if never.
  std::optional<TimePoint> NextDue() const {
    std::optional<TimePoint> next;
    if (!delayed_.empty()) {
      next = delayed_.begin()->first;
    }
    for (const auto& [key, due] : due_) {
      return next ? std::min(*next, due.since) : due.since;
    }
    return next;
  }

  std::size_t depth() const { return due_.size(); }

  const WorkQueueCounts& counts() const { return counts_; }

 private:
  struct Due {
    Priority priority;
    TimePoint since;
  };

  static std::optional<Priority> Higher(std::optional<Priority> a, Priority b) {
    return a ? std::max(*a, b) : b;
  }

  std::deque<Key>& QueueOf(Priority priority) {
    return priority == Priority::kLow ? low_ : normal_;
  }

  void CancelDelayed(const Key& key) {
    const auto known = delayed_at_.find(key);
    if (known != delayed_at_.end()) {
      delayed_.erase({known->second, key});
      delayed_at_.erase(known);
    }
  }

  WorkQueueOptions options_;
  WorkQueueCounts counts_;
  std::map<Key, Due> due_;
  std::deque<Key> normal_;  // may hold keys that are due no longer, or at another priority
  std::deque<Key> low_;
  std::set<std::pair<TimePoint, Key>> delayed_;
  std::map<Key, TimePoint> delayed_at_;
  std::map<Key, int> failures_;                     // in a row
  std::map<Key, std::optional<Priority>> working_;  // and how it was added meanwhile
};

}  // namespace lockstep::control::kube
