#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/checks.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// How long queues let their jobs run: no longer than that do gangs have their places, and nobody is
// stopped before. Read from the documents as they are stored, by no decoder of the operator's.
namespace lockstep::control::sim {
namespace {

using std::chrono::seconds;

// A limit that is over is answered so much later, in peace: calendars that differ, views that lag,
// and a write. Choice: twice what views lag.
constexpr seconds kLimitBound = 2 * std::chrono::duration_cast<seconds>(kViewLag);

// So long after the last fault or edit. Choice: a new leader takes half of that.
constexpr seconds kSettlesIn{60};

// The queue that it counts in: that which it got its places by, else the one that it names.
std::string QueueOf(const Json& job) {
  std::string queue = HasPlaces(job) ? TextAt(job, "status.origin.queue") : "";
  if (queue.empty()) {
    queue = TextAt(job, "spec.scheduling.queue");
  }
  return queue.empty() ? "default" : queue;
}

// The queue and those above it.
std::vector<std::string> WayUp(const ObjectStore& store, std::string queue) {
  std::vector<std::string> way;
  while (!queue.empty()) {
    way.push_back(queue);
    const ObjectPtr object = store.Get(kube::kTrainingQueues, {"", queue});
    queue = object == nullptr ? "" : TextAt(*object, "spec.parent");
  }
  return way;
}

}  // namespace

void Checks::NoteLimits() {
  for (const auto& [key, queue] : server_->store().Of(kube::kTrainingQueues).objects) {
    const Json spec = queue->value("spec", Json::object());
    const std::optional<int64_t> limit =
        spec.contains("maxRuntimeSeconds")
            ? std::optional(spec.at("maxRuntimeSeconds").get<int64_t>())
            : std::nullopt;
    std::map<TimePoint, std::optional<int64_t>>& known = limits_[key.name];
    if (known.empty() || known.rbegin()->second != limit) {
      known[context_->now] = limit;
    }
  }
}

// Whether a limit that was in force when that may have been decided had been reached.
bool Checks::WasStoppedByQueue(const Json& job) {
  NoteLimits();  // one may have been edited in this very moment
  const auto placed = placed_since_.find(UidOf(job));
  const Duration now_placed =
      placed == placed_since_.end() ? Duration() : context_->now - placed->second;
  const Duration ran = placed_before_[UidOf(job)] + now_placed;
  const TimePoint decided = context_->now - kDecisionError - kViewLag;
  for (const std::string& queue : WayUp(server_->store(), QueueOf(job))) {
    const auto known = limits_.find(queue);
    if (known == limits_.end()) {
      continue;
    }
    for (auto one = known->second.begin(); one != known->second.end(); ++one) {
      const bool was_in_force =
          std::next(one) == known->second.end() || std::next(one)->first >= decided;
      if (was_in_force && one->second.has_value() &&
          ran + kDecisionError >= seconds(*one->second)) {
        context_->Count("a job that its queue's limit ends");
        return true;
      }
    }
  }
  return false;
}

// Pauses between two gangs count for the limit and not here, so that nothing is asked for that is
// not promised.
void Checks::CheckHolding(const Json& job) {
  Holding& holding = holding_[UidOf(job)];
  if (holding.since.has_value()) {
    holding.held += context_->now - *holding.since;
  }
  holding.since = HoldsPlaces(job) ? std::optional(context_->now) : std::nullopt;
  if (!holding.since.has_value() || context_->has_faults ||
      context_->now - context_->peace_since < kSettlesIn) {
    return;
  }
  const Json policy = job.at("spec").value("runPolicy", Json::object());
  if (policy.contains("activeDeadlineSeconds")) {
    const auto limit = policy.at("activeDeadlineSeconds").get<int64_t>();
    Require(holding.held < seconds(limit) + kLimitBound,
            TextAt(job, "metadata.name") + ": has had its places for longer than the " +
                std::to_string(limit) + " s of its own deadline");
  }
  for (const std::string& queue : WayUp(server_->store(), QueueOf(job))) {
    const auto known = limits_.find(queue);
    if (known == limits_.end() || !known->second.rbegin()->second.has_value() ||
        context_->now - known->second.rbegin()->first < kSettlesIn) {
      continue;
    }
    const int64_t limit = *known->second.rbegin()->second;
    Require(holding.held < seconds(limit) + kLimitBound,
            TextAt(job, "metadata.name") + ": has had its places for longer than the " +
                std::to_string(limit) + " s that queue " + queue + " lets its jobs run");
  }
}

}  // namespace lockstep::control::sim
