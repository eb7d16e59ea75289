#include "operator/view/stored/stored_queue.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/json/json.h"
#include "operator/api/queue/queue_family.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/view/stored/object_origin.h"

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
  spec.namespaces = queue.namespaces;
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
    stored.queue.name = raw.key.name;
    stored.problem = document.error().ToString();
  }
  stored.version = raw.resource_version;
  return ItemOf(std::move(raw), std::move(stored));
}

QueuesByName ByName(const std::vector<StoredQueue>& queues) {
  QueuesByName by_name;
  for (const StoredQueue& stored : queues) {
    by_name[stored.queue.name] = &stored;
  }
  return by_name;
}

namespace {

// Of a queue whose parents form a loop, as `lockstep validate` says it.
std::string WordsOfCircle(const QueuesByName& by_name, const TrainingQueue& queue) {
  const std::string way =
      WayToItself(queue, [&](const std::string& name) { return &by_name.at(name)->queue; });
  return way == queue.name
             ? "queue " + queue.name + " is its own parent"
             : "the parents of queue " + queue.name + " form a loop: " + queue.name + ", " + way;
}

// Why the queue is not served; empty: it is.
std::string WhyUnserved(const QueuesByName& by_name, const StoredQueue* queue) {
  if (!queue->problem.empty()) {
    return "it cannot be read: " + queue->problem;
  }
  std::set<std::string> seen;
  while (!queue->queue.parent.empty()) {
    if (!seen.insert(queue->queue.name).second) {
      return WordsOfCircle(by_name, queue->queue);
    }
    const auto above = by_name.find(queue->queue.parent);
    if (above == by_name.end()) {
      return "queue " + queue->queue.parent + ", the parent of queue " + queue->queue.name +
             ", does not exist";
    }
    if (!above->second->problem.empty()) {
      return "queue " + queue->queue.parent + ", the parent of queue " + queue->queue.name +
             ", cannot be read";
    }
    queue = above->second;
  }
  return "";
}

// Whether its parent, and all above that, are there.
bool LeadsToTop(const QueuesByName& by_name, const StoredQueue* queue) {
  std::set<std::string> seen;
  while (!queue->queue.parent.empty()) {
    const auto above = by_name.find(queue->queue.parent);
    if (above == by_name.end() || !seen.insert(queue->queue.name).second) {
      return false;
    }
    queue = above->second;
  }
  return true;
}

}  // namespace

std::vector<QueueSpec> UsableQueues(const std::vector<StoredQueue>& queues) {
  const QueuesByName by_name = ByName(queues);
  std::vector<QueueSpec> specs;
  for (const auto& [name, stored] : by_name) {
    if (LeadsToTop(by_name, stored)) {
      specs.push_back(SpecOf(stored->queue));
    }
  }
  return specs;
}

std::map<std::string, std::string> UnservedQueues(const std::vector<StoredQueue>& queues) {
  const QueuesByName by_name = ByName(queues);
  std::map<std::string, std::string> unserved;
  for (const auto& [name, stored] : by_name) {
    if (std::string why = WhyUnserved(by_name, stored); !why.empty()) {
      unserved[name] = std::move(why);
    }
  }
  return unserved;
}

std::map<std::string, RunTimeLimit> RunTimeLimits(const std::vector<StoredQueue>& queues) {
  const QueuesByName by_name = ByName(queues);
  std::map<std::string, RunTimeLimit> limits;
  for (const auto& [name, stored] : by_name) {
    if (!WhyUnserved(by_name, stored).empty()) {
      continue;
    }
    for (std::string at = name; !at.empty(); at = by_name.at(at)->queue.parent) {
      const std::optional<std::chrono::seconds>& own = by_name.at(at)->queue.max_runtime;
      if (own.has_value() && (!limits.contains(name) || *own < limits.at(name).limit)) {
        limits[name] = {at, *own};
      }
    }
  }
  return limits;
}

}  // namespace lockstep::control
