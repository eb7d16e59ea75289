#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"

namespace lockstep::control {

inline constexpr std::string_view kTrainingQueueKind = "TrainingQueue";

// Whose turn it is among the jobs of a queue.
enum class QueueOrder {
  kFifo,       // who came first
  kFairShare,  // the namespace that has least
};

// Amounts by resource, in the units of ResourceVector.
using QueueAmounts = std::map<std::string, int64_t>;

// A TrainingQueue as a value: a share of the cluster.
struct TrainingQueue {
  std::string name;
  std::string parent;            // empty: none
  QueueAmounts nominal;          // what it may hold at any time
  QueueAmounts borrowing_limit;  // above that, while others do not use it; without: what is left
  QueueAmounts lending_limit;    // of it, while it does not use it; without: all of it
  int64_t weight = 1;            // of its share of what is left, beside others of its parent
  QueueOrder order = QueueOrder::kFifo;

  friend bool operator==(const TrainingQueue&, const TrainingQueue&) = default;
};

struct DecodedQueue {
  TrainingQueue queue;        // complete only if `errors` is empty
  std::vector<Error> errors;  // every problem, each with its field's path
};

// Reads one TrainingQueue strictly, its metadata aside.
DecodedQueue DecodeTrainingQueue(const Json& document);

}  // namespace lockstep::control
