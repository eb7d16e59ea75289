#include "operator/controller/queue/queue_report.h"

#include <algorithm>
#include <chrono>

#include "common/base/rfc3339.h"
#include "common/json/json.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {
namespace {

// Choice: what people look at, and no more writes than a queue has readers.
constexpr Duration kReportInterval = std::chrono::seconds(5);

// Choice: what was not written is often not written for minutes; the log has a line each time.
constexpr Duration kFailureInterval = std::chrono::minutes(1);

// Choice: so much of what was held is lost at most when a leader is; a write a minute for each
// queue.
constexpr Duration kHoursInterval = std::chrono::minutes(1);

// Whether both say the same: an API server gives the members of an object back in an order of its
// own.
bool SaySame(const Json& a, const Json& b) {
  if (!a.is_structured() || a.type() != b.type() || a.size() != b.size()) {
    return a == b;
  }
  if (a.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), SaySame);
  }
  return std::all_of(a.items().begin(), a.items().end(), [&](const auto& member) {
    return b.contains(member.key()) && SaySame(member.value(), b.at(member.key()));
  });
}

// What counts over time: what gangs with places hold. What is left of others would count for as
// long as a lost node is not given up, for which no queue can do anything, and be news each minute.
std::map<std::string, QueueAmounts> HeldIn(const std::map<std::string, QueueStatus>& standings) {
  std::map<std::string, QueueAmounts> held;
  for (const auto& [queue, standing] : standings) {
    held[queue] = standing.used;
    for (const auto& [resource, amount] : standing.left) {
      if ((held[queue][resource] -= amount) <= 0) {
        held[queue].erase(resource);
      }
    }
  }
  return held;
}

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
  if (!view_->has_queues()) {
    return std::nullopt;
  }
  const bool is_counting = hours_.is_counting() || past_.is_decaying();
  const bool has_news = has_failed_ || view_->HasSchedulingNews(reported_news_);
  if (!reported_at_.has_value()) {
    return has_news ? std::optional(TimePoint{}) : std::nullopt;
  }
  const TimePoint report = *reported_at_ + (has_failed_ ? kFailureInterval : kReportInterval);
  const TimePoint hours = hours_at_.value_or(*reported_at_) + kHoursInterval;
  return has_news && is_counting ? std::optional(std::min(report, hours))
         : has_news              ? std::optional(report)
         : is_counting           ? std::optional(hours)
                                 : std::nullopt;
}

void QueueReporter::Lead(TimePoint now, WallTime wall_now) {
  if (past_.is_kept()) {
    std::map<std::string, Json> statuses;
    for (const StoredQueue& stored : view_->Queues()) {
      statuses[stored.queue.name] = stored.status;
    }
    past_.Lead(now, wall_now, statuses);
    view_->Scheduling(wall_now).SetPastUse(past_.Means());
  }
  hours_.Clear();
  hours_at_.reset();
  reported_at_.reset();
  reported_news_ = 0;
  has_failed_ = false;
}

// The hours that are stored stay as they are until they are due, or something else is written.
Json QueueReporter::StatusOf(const StoredQueue& stored,
                             const QueueStatus& standing,
                             bool are_hours_due,
                             WallTime wall_now) {
  const Json before = stored.status.is_object() ? stored.status : Json::object();
  Json status = EncodeQueueStatus(standing, stored.status, wall_now);
  status["usedHours"] = before.value("usedHours", Json::object());
  status["usedHoursSince"] = before.value("usedHoursSince", FormatRfc3339(wall_now));
  const std::string& queue = stored.queue.name;
  const UsedHours total = hours_.Total(queue, stored.status);
  const bool has_more = total != UsedHoursIn(stored.status);
  if (has_more && (are_hours_due || !SaySame(status, stored.status))) {
    hours_.NoteWrite(queue, stored.status, total);
    status["usedHours"] = total;
  }
  AddPastUse(stored, are_hours_due && has_more, wall_now, &status);
  return status;
}

// What is stored stays until it is due, or something else is written: it says of when it is.
void QueueReporter::AddPastUse(const StoredQueue& stored,
                               bool is_due,
                               WallTime wall_now,
                               Json* status) const {
  const Json before = stored.status.is_object() ? stored.status : Json::object();
  const bool was_kept = before.contains("pastUse") && before.contains("pastUseAt");
  if (past_.is_kept() && was_kept) {
    (*status)["pastUse"] = before["pastUse"];
    (*status)["pastUseAt"] = before["pastUseAt"];
  }
  if (past_.is_kept() && (is_due || !was_kept || !SaySame(*status, stored.status))) {
    (*status)["pastUse"] = past_.StatusOf(stored.queue.name);
    (*status)["pastUseAt"] = FormatRfc3339(wall_now);
  }
}

std::vector<QueueReport::Patch> QueueReporter::Take(TimePoint now, WallTime wall_now) {
  if (!view_->has_queues()) {  // time goes on, but not on the bill of one of the same name
    hours_.Clear();
    hours_at_.reset();
    past_.Lead(now, wall_now, {});
  }
  const std::optional<TimePoint> next = NextReport();
  if (!next.has_value() || *next > now) {
    return {};
  }
  reported_at_ = now;
  has_failed_ = false;
  reported_news_ = view_->Scheduling(wall_now).state().news();
  const std::map<std::string, QueueStatus> standings = view_->QueueStandings();
  hours_.Note(now, HeldIn(standings));
  if (past_.is_kept()) {
    past_.Note(now, HeldIn(standings));
    view_->Scheduling(wall_now).SetPastUse(past_.Means());
  }
  const bool are_hours_due = now >= hours_at_.value_or(now) + kHoursInterval;
  if (are_hours_due || !hours_at_.has_value()) {
    hours_at_ = now;
  }
  std::vector<QueueReport::Patch> patches;
  for (const StoredQueue& stored : view_->Queues()) {
    const auto standing = standings.find(stored.queue.name);
    if (standing == standings.end()) {
      continue;
    }
    Json status = StatusOf(stored, standing->second, are_hours_due, wall_now);
    if (SaySame(status, stored.status)) {
      continue;
    }
    // A resource that is not told any more would stay in a merge.
    for (const char* const amounts : {"nominal", "used", "borrowed", "claimed", "pastUse"}) {
      const Json before = stored.status.is_object() ? stored.status.value(amounts, Json()) : Json();
      for (const auto& [name, amount] : before.items()) {
        if (status.contains(amounts) && !status[amounts].contains(name)) {
          status[amounts][name] = nullptr;
        }
      }
    }
    for (const char* const field : {"pastUse", "pastUseAt"}) {
      if (stored.status.is_object() && stored.status.contains(field) && !status.contains(field)) {
        status[field] = nullptr;  // of an operator that kept it
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
