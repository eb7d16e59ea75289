#include "operator/api/status/derived_status.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <utility>

#include "operator/api/fields/pod_label_names.h"
#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

// The message of the condition; empty when it was never set.
std::string MessageOf(const TrainingJobStatus& status, ConditionType type) {
  const Condition* condition = FindCondition(status, type);
  return condition == nullptr ? "" : condition->message;
}

struct PodCounts {
  int64_t ready = 0;  // running, or done with what they were for
  int64_t total = 0;
};

PodCounts CountPods(const TrainingJob& job) {
  PodCounts counts;
  // Of a job that has ended, what is done counts: what still runs is only in the way.
  const bool has_ended = HasEnded(job.status);
  int64_t never_placed = 0;
  for (const RoleCounts& role : job.status.roles) {
    counts.ready += role.succeeded + (has_ended ? 0 : role.active);
    never_placed += has_ended ? role.pending : 0;
  }
  // A gang may keep a size that is not asked for any more, and so does a job that ended without.
  const auto placed = static_cast<int64_t>(job.status.placement.size());
  counts.total = placed > 0 ? placed : never_placed;
  if (counts.total == 0) {
    for (const RoleSpec& role : job.spec.roles) {
      counts.total += role.replicas;
    }
  }
  return counts;
}

int64_t CountWorkers(const TrainingJobStatus& status) {
  const bool has_ended = HasEnded(status);  // what is pending then will never come
  int64_t count = 0;
  for (const RoleCounts& role : status.roles) {
    count += role.name == Role::kWorker ? (has_ended ? 0 : role.pending) + role.active : 0;
  }
  return count;
}

// The message of Scheduled while it is true for that reason; else empty.
std::string MessageOfPlaced(const TrainingJobStatus& status, std::string_view reason) {
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  return scheduled != nullptr && scheduled->is_true && scheduled->reason == reason
             ? scheduled->message
             : "";
}

// Placed, but not all pods run yet. A Running condition that is false may know more, such as an
// image that cannot be pulled; why an earlier gang went is no news any more.
std::string WhyStarting(const TrainingJobStatus& status, const PodCounts& pods) {
  if (std::string waits = MessageOfPlaced(status, kReasonPodWaits); !waits.empty()) {
    return waits;
  }
  const Condition* const running = FindCondition(status, ConditionType::kRunning);
  const bool is_news = running != nullptr && running->reason != kReasonPreempted &&
                       running->reason != kReasonSuspended;
  const std::string known = is_news ? running->message : "";
  return known.empty() ? std::to_string(pods.ready) + " of " + std::to_string(pods.total) +
                             " pods have started"
                       : known;
}

// Of a gang that runs: what else is not as asked, the more urgent first.
std::string WhatIsOpen(const TrainingJobStatus& status) {
  for (const ConditionType type : {ConditionType::kResized, ConditionType::kRuntimeHeard}) {
    if (FindCondition(status, type) != nullptr && !IsTrue(status, type)) {
      return MessageOf(status, type);
    }
  }
  const std::string elsewhere = MessageOfPlaced(status, kReasonPodElsewhere);
  return elsewhere.empty() ? MessageOfPlaced(status, kReasonManifestChanged) : elsewhere;
}

std::string WhyNotAsAsked(const TrainingJobStatus& status, const PodCounts& pods) {
  const bool is_stalled = IsTrue(status, ConditionType::kStalled) && !HasEnded(status);
  if (std::string goes = MessageOfPlaced(status, kReasonJobDeleted);
      !goes.empty() && !is_stalled && !HasEnded(status)) {
    return goes;
  }
  if (IsTrue(status, ConditionType::kRunning) && !is_stalled) {
    return WhatIsOpen(status);
  }
  for (const ConditionType type : {ConditionType::kSucceeded,
                                   ConditionType::kFailed,
                                   ConditionType::kStalled,
                                   ConditionType::kSuspended}) {
    if (IsTrue(status, type)) {
      return MessageOf(status, type);
    }
  }
  if (!IsTrue(status, ConditionType::kScheduled)) {
    const std::string known = MessageOf(status, ConditionType::kScheduled);
    return known.empty() ? "not placed yet" : known;
  }
  return IsTrue(status, ConditionType::kRestarting) ? MessageOf(status, ConditionType::kRestarting)
                                                    : WhyStarting(status, pods);
}

// Choice: what is left of 120 columns beside names and queues of some ten letters.
constexpr std::size_t kReasonColumns = 36;

// "2h10m", "45s", "3d4h": the two largest units.
std::string ShortDuration(double seconds) {
  constexpr int64_t kLongest = 9999 * int64_t{86'400};
  const int64_t all = static_cast<int64_t>(std::min<double>(seconds, kLongest));
  const std::pair<int64_t, char> units[] = {{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}, {1, 's'}};
  for (std::size_t i = 0; i < std::size(units); ++i) {
    const auto [unit, name] = units[i];
    if (all < unit && unit > 1) {
      continue;
    }
    std::string text = std::to_string(all / unit) + name;
    if (unit > 60 && all % unit >= units[i + 1].first) {
      text += std::to_string(all % unit / units[i + 1].first) + units[i + 1].second;
    }
    return text;
  }
  return "0s";
}

// Of UTF-8 text, no more than so many characters, cut between words where that is possible.
std::string CutToFit(const std::string& text, std::size_t columns) {
  std::size_t width = 0;
  std::size_t last_fit = 0;    // bytes of `columns` - 1 characters
  std::size_t last_space = 0;  // among them
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && width == columns - 1) {
      last_fit = last_fit == 0 ? i : last_fit;
    } else if (begins && text[i] == ' ') {
      last_space = last_fit == 0 ? i : last_space;
    }
    width += begins ? 1 : 0;
  }
  if (width <= columns) {
    return text;
  }
  return text.substr(0, last_space > last_fit / 2 ? last_space : last_fit) + "…";
}

TableCells CellsOf(const TrainingJob& job, const std::string& reason) {
  const TrainingJobStatus& status = job.status;
  TableCells cells;
  if (const auto& progress = status.progress; progress.has_value()) {
    cells.step = std::to_string(progress->step);
    if (progress->steps_total > 0) {
      cells.step += "/" + std::to_string(progress->steps_total);
    }
    char loss[32];
    std::snprintf(loss, sizeof(loss), "%.4g", progress->loss);
    cells.loss = loss;
    if (IsTrue(status, ConditionType::kRunning) && std::isfinite(progress->eta_seconds) &&
        progress->eta_seconds > 0) {
      cells.eta = ShortDuration(progress->eta_seconds);
    }
  }
  const std::string& asked = job.spec.scheduling.queue;
  const std::string& had = status.origin.queue;
  cells.queue = !status.placement.empty() && !had.empty() ? had : asked.empty() ? "default" : asked;
  if (status.queue.has_value() && status.queue->position.has_value()) {
    cells.queue += " #" + std::to_string(*status.queue->position);
  }
  if (!reason.empty()) {
    cells.reason = CutToFit(reason, kReasonColumns);
  }
  return cells;
}

}  // namespace

DerivedStatus DeriveStatus(const TrainingJob& job) {
  const TrainingJobStatus& status = job.status;
  const PodCounts pods = CountPods(job);
  DerivedStatus derived;
  derived.state = StateWord(status);
  derived.ready = std::to_string(pods.ready) + "/" + std::to_string(pods.total);
  derived.restart_count = TotalRestarts(status);
  derived.reason = WhyNotAsAsked(status, pods);
  derived.replicas = CountWorkers(status);
  derived.selector = std::string(label::kJob) + "=" + job.metadata.name + "," + label::kRole + "=" +
                     std::string(RoleName(Role::kWorker));
  derived.cells = CellsOf(job, derived.reason);
  return derived;
}

int64_t TotalRestarts(const TrainingJobStatus& status) {
  int64_t sum = 0;
  for (const RestartCount& restart : status.restarts) {
    sum += restart.count;
  }
  return sum;
}

}  // namespace lockstep::control
