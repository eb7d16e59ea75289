#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/checks.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/selector.h"

// What jobs say of where they stand in their queues, as it is stored.
namespace lockstep::control::sim {
namespace {

std::string NamedQueueOf(const Json& job) {
  const std::string queue = TextAt(job, "spec.scheduling.queue");
  return queue.empty() ? "default" : queue;
}

// What the largest node has for pods that come; without nodes 0.
int64_t GpusOfLargestNode(const ApiServer& server) {
  int64_t largest = 0;
  for (const auto& [key, node] : server.store().Of(kube::kNodes).objects) {
    const Json allocatable = node->at("status").at("allocatable");
    if (!node->at("spec").value("unschedulable", false) && allocatable.contains("nvidia.com/gpu")) {
      largest = std::max<int64_t>(largest,
                                  std::stoll(allocatable.at("nvidia.com/gpu").get<std::string>()));
    }
  }
  return largest;
}

}  // namespace

// Only who waits for places stands in a queue, and in its own.
void Checks::CheckQueue(const Json& job) {
  const Json status = job.value("status", Json::object());
  if (!status.contains("queue")) {
    return;
  }
  const std::string name = TextAt(job, "metadata.name");
  Require(WantsPlaces(job) || IsDeleting(job),
          name + ": stands in a queue, and has its places or has ended");
  Require(TextAt(job, "status.queue.name") == NamedQueueOf(job),
          name + ": stands in queue " + TextAt(job, "status.queue.name") + ", and is in another");
}

// Whether all that wait and could start on empty nodes stand in line, from 1 on, and nobody else
// does, but for those that an autoscaler may add nodes for; where nothing but their age counts, the
// oldest first.
bool Checks::ArePositionsRight() const {
  using Row = std::tuple<std::string, std::string, int64_t>;  // created, name, position
  std::map<std::string, std::vector<Row>> lines;              // by queue
  const int64_t gpus_max = GpusOfLargestNode(*server_);
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (!WantsPlaces(*job)) {
      continue;
    }
    const Json status = job->value("status", Json::object());
    const Json queue = status.value("queue", Json::object());
    const int64_t position = queue.value("position", int64_t{0});
    const bool can_start = jobs_.Of(job).spec.roles[0].gpus <= gpus_max;
    if (can_start || (context_->has_autoscaler && position > 0)) {
      lines[NamedQueueOf(*job)].emplace_back(
          TextAt(*job, "metadata.creationTimestamp"), key.name, position);
    } else if (position > 0) {
      return false;
    }
  }
  for (auto& [queue, line] : lines) {
    const bool is_by_age = queue != "owner";
    std::sort(line.begin(), line.end(), [is_by_age](const Row& a, const Row& b) {
      return is_by_age ? a < b : std::get<2>(a) < std::get<2>(b);
    });
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (std::get<2>(line[i]) != static_cast<int64_t>(i) + 1) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace lockstep::control::sim
