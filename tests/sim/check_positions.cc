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

// Whether all that wait stand in line, from 1 on; where nothing but their age counts, the oldest
// first.
bool Checks::ArePositionsRight() const {
  using Row = std::tuple<std::string, std::string, int64_t>;  // created, name, position
  std::map<std::string, std::vector<Row>> lines;              // by queue
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (WantsPlaces(*job)) {
      const Json queue = job->at("status").value("queue", Json::object());
      lines[NamedQueueOf(*job)].emplace_back(TextAt(*job, "metadata.creationTimestamp"),
                                             key.name,
                                             queue.value("position", int64_t{0}));
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
