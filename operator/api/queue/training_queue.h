#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/json/json.h"

namespace lockstep::control {

inline constexpr std::string_view kTrainingQueueKind = "TrainingQueue";

// Whose turn it is among the jobs of a queue.
enum class QueueOrder {
  kFifo,       // who came first
  kPriority,   // the highest priority, then who came first
  kFairShare,  // the namespace that has least
};

// Amounts by resource, in the units of ResourceVector.
using QueueAmounts = std::map<std::string, int64_t>;

// A TrainingQueue as a value: a share of the cluster.
struct TrainingQueue {
  std::string name;
  std::string parent;            // empty: none
  QueueAmounts nominal;          // what it may hold without borrowing
  QueueAmounts borrowing_limit;  // above that, while others do not use it; without: what is left
  QueueAmounts lending_limit;    // of it, while it does not use it; without: all of it
  int64_t weight = 1;            // of its share of what is left, beside others of its parent
  QueueOrder order = QueueOrder::kFifo;
  bool preempts_lower_priority = false;  // its jobs may have others of it go
  bool reclaims = false;                 // and those of other queues that hold borrowed room
  std::chrono::seconds min_runtime{0};   // none of its own goes before
  std::set<std::string> namespaces{};    // whose jobs may be in it; empty: everybody's
  // A job of it has failed when it has had its places for so long in all; null: it may go on.
  std::optional<std::chrono::seconds> max_runtime{};

  friend bool operator==(const TrainingQueue&, const TrainingQueue&) = default;
};

// How long a job may have its places in all, by its queue.
struct RunTimeLimit {
  std::string queue;  // whose field says so: the job's own, or one above it
  std::chrono::seconds limit{};

  friend bool operator==(const RunTimeLimit&, const RunTimeLimit&) = default;
};

// What people are told of a queue.
struct QueueStatus {
  bool is_ready = true;  // its jobs are served
  std::string reason;    // one CamelCase word
  std::string message;   // for people
  QueueAmounts nominal;
  QueueAmounts used;  // by gangs with places, of those below it too, and by pods that others left
  QueueAmounts borrowed;  // the part of that which is above the nominal amounts
  QueueAmounts claimed;   // kept for gangs that wait until others have gone; not used yet
  int64_t waiting = 0;    // jobs
  QueueAmounts left{};    // the part of `used` that pods of gangs without places hold; not stored
  std::optional<WallTime> oldest_wait{};  // since when the first of `waiting` waits; not stored
  bool has_queues_below = false;          // so no job may name it; not stored

  friend bool operator==(const QueueStatus&, const QueueStatus&) = default;
};

// As it is stored at `now`. The time of its condition is that of `before`, the stored status, where
// nothing has changed in it since.
Json EncodeQueueStatus(const QueueStatus& status, const Json& before, WallTime now);

struct DecodedQueue {
  TrainingQueue queue;        // complete only if `errors` is empty
  std::vector<Error> errors;  // every problem, each with its field's path
};

// Reads one TrainingQueue strictly, its metadata aside.
DecodedQueue DecodeTrainingQueue(const Json& document);

}  // namespace lockstep::control
