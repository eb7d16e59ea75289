#include "operator/controller/queue_report.h"

#include <chrono>

#include "common/json/json.h"
#include "operator/kube/request.h"

namespace lockstep::control {
namespace {

// Choice: what people look at, and no more writes than a queue has readers.
constexpr Duration kReportInterval = std::chrono::seconds(5);

// Choice: what was not written is often not written for minutes; the log has a line each time.
constexpr Duration kFailureInterval = std::chrono::minutes(1);

}  // namespace

std::vector<ErrandCall> QueueReport::Next() {
  std::vector<ErrandCall> calls;
  for (Patch& patch : std::exchange(patches_, {})) {
    calls.push_back({[patch = std::move(patch)] {
                       return kube::MergePatch(
                           kube::kTrainingQueues, "", patch.first, patch.second, "status");
                     },
                     [this](kube::CallResult result) {
                       const auto reply = kube::RequireSuccess(std::move(result));
                       if (!reply.ok() && answer_.ok()) {
                         answer_ = reply.error();
                       }
                     }});
  }
  return calls;
}

std::optional<TimePoint> QueueReporter::NextReport() const {
  if (!view_->has_queues() || !(has_failed_ || view_->HasSchedulingNews(reported_news_))) {
    return std::nullopt;
  }
  if (!reported_at_.has_value()) {
    return TimePoint{};
  }
  return *reported_at_ + (has_failed_ ? kFailureInterval : kReportInterval);
}

std::vector<QueueReport::Patch> QueueReporter::Take(TimePoint now, WallTime wall_now) {
  const std::optional<TimePoint> next = NextReport();
  if (!next.has_value() || *next > now) {
    return {};
  }
  reported_at_ = now;
  has_failed_ = false;
  reported_news_ = view_->Scheduling(wall_now).state().news();
  const std::map<std::string, QueueStatus> standings = view_->QueueStandings();
  std::vector<QueueReport::Patch> patches;
  for (const StoredQueue& stored : view_->Queues()) {
    Json status = EncodeQueueStatus(standings.at(stored.queue.name), stored.status, wall_now);
    if (status == stored.status) {
      continue;
    }
    // A resource that is not told any more would stay in a merge.
    for (const char* const amounts : {"nominal", "used", "borrowed", "claimed"}) {
      const Json before = stored.status.is_object() ? stored.status.value(amounts, Json()) : Json();
      for (const auto& [name, amount] : before.items()) {
        if (!status[amounts].contains(name)) {
          status[amounts][name] = nullptr;
        }
      }
    }
    // Whoever led before us and does not know it yet has seen an older one: it is refused.
    patches.emplace_back(stored.queue.name,
                         DumpJson({{"metadata", {{"resourceVersion", stored.version}}},
                                   {"status", std::move(status)}}));
  }
  return patches;
}

}  // namespace lockstep::control
