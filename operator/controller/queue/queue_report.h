#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/controller/errand/errand.h"
#include "operator/controller/queue/past_use.h"
#include "operator/controller/queue/queue_hours.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Writes what has changed of the queues into their statuses, where people look. Nobody decides by
// it: what cannot be written is written with the next report, and so is what somebody else has
// written since the queue was seen.
class QueueReport final : public Errand {
 public:
  // Queue and status, as a merge patch.
  using Patch = std::pair<std::string, std::string>;

  explicit QueueReport(std::vector<Patch> patches) : patches_(std::move(patches)) {}

  std::vector<ErrandCall> Next() override;

  // The first that went wrong.
  std::vector<Status> TakeAnswers() override { return {answer_}; }

 private:
  std::vector<Patch> patches_;
  Status answer_ = OkStatus();
};

// When reports are due; and tells rounds what queues have held of late.
// Thread: one. `view` outlives it.
class QueueReporter {
 public:
  // `half_life` as of PastUse.
  explicit QueueReporter(ClusterView* view, std::chrono::milliseconds half_life = {})
      : view_(view), past_(half_life) {}

  // Null: nothing has changed and no hours are counted, or there are no queues.
  std::optional<TimePoint> NextReport() const;

  // The newest report was not written whole: all that differs is due again, a minute after it.
  void NoteFailed() { has_failed_ = true; }

  // We lead from now on: hours that an earlier time as leader has not stored are lost, and what is
  // held counts anew. Rounds know from then on what queues have held of late.
  void Lead(TimePoint now, WallTime wall_now);

  // What there is to write at this moment, if that is due.
  std::vector<QueueReport::Patch> Take(TimePoint now, WallTime wall_now);

 private:
  Json StatusOf(const StoredQueue& stored,
                const QueueStatus& standing,
                bool are_hours_due,
                WallTime wall_now);

  ClusterView* view_;
  void AddPastUse(const StoredQueue& stored, bool is_due, WallTime wall_now, Json* status) const;

  QueueHours hours_;
  PastUse past_;
  std::optional<TimePoint> hours_at_;  // when they were written last whatever else was new
  std::optional<TimePoint> reported_at_;
  uint64_t reported_news_ = 0;
  bool has_failed_ = false;
};

}  // namespace lockstep::control
