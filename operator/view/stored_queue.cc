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

QueueSpec SpecOf(const TrainingQueue& queue) {
  QueueSpec spec;
  spec.name = queue.name;
  spec.parent = queue.parent;
  spec.nominal = queue.nominal;
  spec.borrowing_limit = queue.borrowing_limit;
  spec.lending_limit = queue.lending_limit;
  spec.weight = queue.weight;
  spec.ordering =
      queue.order == QueueOrder::kFairShare ? QueueOrdering::kFairShare : QueueOrdering::kFifo;
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
    stored.problem = decoded.errors.empty() ? "" : decoded.errors.front().ToString();
  } else {
    stored.problem = document.error().ToString();
  }
  return kube::Item<StoredQueue>{std::move(raw.key),
                                 std::move(raw.uid),
                                 std::move(raw.resource_version),
                                 std::make_shared<const StoredQueue>(std::move(stored))};
}

std::vector<QueueSpec> UsableQueues(const std::vector<StoredQueue>& queues) {
  std::map<std::string, const TrainingQueue*> by_name;
  for (const StoredQueue& stored : queues) {
    if (stored.problem.empty()) {
      by_name[stored.queue.name] = &stored.queue;
    }
  }
  const auto hangs_from_the_top = [&](const TrainingQueue* queue) {
    std::set<std::string> seen;
    while (!queue->parent.empty()) {
      const auto above = by_name.find(queue->parent);
      if (above == by_name.end() || !seen.insert(queue->name).second) {
        return false;
      }
      queue = above->second;
    }
    return true;
  };
  std::vector<QueueSpec> specs;
  for (const auto& [name, queue] : by_name) {
    if (hangs_from_the_top(queue)) {
      specs.push_back(SpecOf(*queue));
    }
  }
  return specs;
}

}  // namespace lockstep::control
