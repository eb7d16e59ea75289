#include "operator/view/stored_queue.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "common/json/json.h"
#include "operator/kube/decode.h"

namespace lockstep::control {
namespace {

QueueOrdering OrderingOf(QueueOrder order) {
  return order == QueueOrder::kPriority    ? QueueOrdering::kPriority
         : order == QueueOrder::kFairShare ? QueueOrdering::kFairShare
                                           : QueueOrdering::kFifo;
}

QueueSpec SpecOf(const TrainingQueue& queue) {
  QueueSpec spec;
  spec.name = queue.name;
  spec.parent = queue.parent;
  spec.nominal = queue.nominal;
  spec.borrowing_limit = queue.borrowing_limit;
  spec.lending_limit = queue.lending_limit;
  spec.weight = queue.weight;
  spec.preempts_lower_priority = queue.preempts_lower_priority;
  spec.reclaims = queue.reclaims;
  spec.min_runtime = queue.min_runtime;
  spec.ordering = OrderingOf(queue.order);
  return spec;
}

}  // namespace

Result<kube::Item<StoredQueue>> DecodeStoredQueue(std::string_view json) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::RawObject> raw, kube::DecodeRaw(json));
  StoredQueue stored;
  const Result<Json> document = ParseJson(raw.object->json);
  if (document.ok()) {
    DecodedQueue decoded = DecodeTrainingQueue(*document);
    stored.queue = std::move(decoded.queue);
    stored.status = document->value("status", Json());
    stored.problem = decoded.errors.empty() ? "" : decoded.errors.front().ToString();
  } else {
    stored.problem = document.error().ToString();
  }
  return kube::Item<StoredQueue>{std::move(raw.key),
                                 std::move(raw.uid),
                                 std::move(raw.resource_version),
                                 std::make_shared<const StoredQueue>(std::move(stored))};
}

namespace {

using QueuesByName = std::map<std::string, const StoredQueue*>;

QueuesByName ByName(const std::vector<StoredQueue>& queues) {
  QueuesByName by_name;
  for (const StoredQueue& stored : queues) {
    by_name[stored.queue.name] = &stored;
  }
  return by_name;
}

// Why the queue does not hang from the top; empty: it does.
std::string WhyUnusable(const QueuesByName& by_name, const StoredQueue* queue) {
  if (!queue->problem.empty()) {
    return "it cannot be read: " + queue->problem;
  }
  std::set<std::string> seen;
  while (!queue->queue.parent.empty()) {
    if (!seen.insert(queue->queue.name).second) {
      return "queue " + queue->queue.name + " is below itself";
    }
    const auto above = by_name.find(queue->queue.parent);
    if (above == by_name.end()) {
      return "the parent of " + queue->queue.name + ", " + queue->queue.parent + ", does not exist";
    }
    if (!above->second->problem.empty()) {
      return "the parent of " + queue->queue.name + ", " + queue->queue.parent + ", cannot be read";
    }
    queue = above->second;
  }
  return "";
}

QueueAmounts AmountsOf(const ResourceVector& resources) {
  QueueAmounts amounts;
  for (const NamedAmount& one : resources.All()) {
    if (one.amount != 0) {
      amounts[one.name] = one.amount;
    }
  }
  return amounts;
}

QueueAmounts BorrowedOf(const QueueStatus& status) {
  QueueAmounts borrowed;
  for (const auto& [name, nominal] : status.nominal) {
    const auto used = status.used.find(name);
    if (used != status.used.end() && used->second > nominal) {
      borrowed[name] = used->second - nominal;
    }
  }
  return borrowed;
}

// What is counted of a queue is counted of those above it, too.
void AddToParents(const QueueTree& queues, std::map<QueueIndex, int64_t>* counts) {
  const std::map<QueueIndex, int64_t> own = *counts;
  for (const auto& [queue, count] : own) {
    std::string parent = queues.SpecOf(queue).parent;
    while (!parent.empty()) {
      const QueueIndex above = *queues.Find(parent);
      (*counts)[above] += count;
      parent = queues.SpecOf(above).parent;
    }
  }
}

}  // namespace

std::vector<QueueSpec> UsableQueues(const std::vector<StoredQueue>& queues) {
  const QueuesByName by_name = ByName(queues);
  std::vector<QueueSpec> specs;
  for (const auto& [name, stored] : by_name) {
    if (WhyUnusable(by_name, stored).empty()) {
      specs.push_back(SpecOf(stored->queue));
    }
  }
  return specs;
}

std::map<std::string, std::string> UnusableQueues(const std::vector<StoredQueue>& queues) {
  const QueuesByName by_name = ByName(queues);
  std::map<std::string, std::string> unusable;
  for (const auto& [name, stored] : by_name) {
    if (std::string why = WhyUnusable(by_name, stored); !why.empty()) {
      unusable[name] = std::move(why);
    }
  }
  return unusable;
}

std::map<std::string, QueueStatus> QueueStatuses(const std::vector<StoredQueue>& queues,
                                                 const ClusterState& state) {
  std::map<QueueIndex, int64_t> waiting;
  for (QueueIndex queue = 0; queue < state.waiting().size(); ++queue) {
    waiting[queue] = static_cast<int64_t>(state.waiting()[queue].size());
  }
  for (const GangRecord* const gang : state.claiming()) {
    waiting[gang->queue.value_or(kTopQueue)] += 1;
  }
  AddToParents(state.queues(), &waiting);
  const QueuesByName by_name = ByName(queues);
  std::map<std::string, QueueStatus> statuses;
  for (const auto& [name, stored] : by_name) {
    QueueStatus& status = statuses[name];
    const std::string why = WhyUnusable(by_name, stored);
    status.is_ready = why.empty();
    status.reason = why.empty() ? "Served" : "NotServed";
    status.message = why.empty() ? "jobs may name it" : why;
    status.nominal = stored->queue.nominal;
    if (const auto index = state.queues().Find(name)) {
      status.used = AmountsOf(state.queues().HeldBy(*index));
      status.borrowed = BorrowedOf(status);
      status.waiting = waiting[*index];
    }
  }
  return statuses;
}

}  // namespace lockstep::control
