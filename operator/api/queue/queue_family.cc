#include "operator/api/queue/queue_family.h"

#include <map>
#include <set>

#include "common/contract/text/problems.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

using QueuesByName = std::map<std::string, const TrainingQueue*>;

QueuesByName ByName(const std::vector<TrainingQueue>& queues) {
  QueuesByName by_name;
  for (const TrainingQueue& queue : queues) {
    by_name.try_emplace(queue.name, &queue);
  }
  return by_name;
}

std::string Text(const std::string& resource, int64_t amount) {
  return QuantityText({resource, amount}) + " of " + resource;
}

// Of each resource that `parent` has a nominal amount of: what the queues below it have in all.
void AddOverpromises(const std::vector<TrainingQueue>& queues,
                     std::size_t parent,
                     std::vector<QueueRemark>* remarks) {
  for (const auto& [resource, nominal] : queues[parent].nominal) {
    double promised = 0;  // sums of int64 may not fit into one
    std::string names;
    for (const TrainingQueue& queue : queues) {
      const auto found = queue.nominal.find(resource);
      if (queue.parent == queues[parent].name && found != queue.nominal.end()) {
        promised += static_cast<double>(found->second);
        names += (names.empty() ? "" : ", ") + queue.name;
      }
    }
    if (promised > static_cast<double>(nominal)) {
      remarks->push_back(
          {parent,
           "spec.nominal." + resource,
           Text(resource, nominal) + " found, but the queues below this queue (" + names +
               ") have more in total; together they get at most what this queue may use",
           false});
    }
  }
}

void AddLending(const std::vector<TrainingQueue>& queues,
                std::size_t index,
                std::vector<QueueRemark>* remarks) {
  const TrainingQueue& queue = queues[index];
  for (const auto& [resource, limit] : queue.lending_limit) {
    const auto nominal = queue.nominal.find(resource);
    if (nominal != queue.nominal.end() && limit > nominal->second) {
      remarks->push_back(
          {index,
           "spec.lendingLimit." + resource,
           Text(resource, limit) + " found, which is more than the nominal " +
               QuantityText({resource, nominal->second}) +
               ", so the limit has no effect: other queues may use the whole nominal amount",
           false});
    }
  }
}

}  // namespace

std::string WayToItself(const TrainingQueue& queue,
                        const std::function<const TrainingQueue*(const std::string&)>& find) {
  std::set<std::string> seen;
  std::string way;
  for (std::string at = queue.parent; !at.empty() && seen.insert(at).second;) {
    way += (way.empty() ? "" : ", ") + at;
    if (at == queue.name) {
      return way;
    }
    const TrainingQueue* const above = find(at);
    at = above == nullptr ? "" : above->parent;
  }
  return "";
}

std::vector<QueueRemark> RemarksOn(const std::vector<TrainingQueue>& queues) {
  const QueuesByName by_name = ByName(queues);
  const auto find = [&by_name](const std::string& name) {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  std::vector<QueueRemark> remarks;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const bool is_own_parent = queues[i].parent == queues[i].name;  // told of each for itself
    if (const std::string way = WayToItself(queues[i], find); !way.empty() && !is_own_parent) {
      remarks.push_back({i,
                         "spec.parent",
                         Quoted(queues[i].parent) + " found, but then the parents form a loop (" +
                             queues[i].name + ", " + way +
                             "): the operator serves none of these queues; change one of the "
                             "parents",
                         true});
    }
    AddOverpromises(queues, i, &remarks);
    AddLending(queues, i, &remarks);
  }
  return remarks;
}

std::vector<std::string> QueuesBelow(const std::vector<TrainingQueue>& queues,
                                     const std::string& name) {
  std::vector<std::string> below;
  for (const TrainingQueue& queue : queues) {
    if (queue.parent == name && queue.name != name) {
      below.push_back(queue.name);
    }
  }
  return below;
}

}  // namespace lockstep::control
