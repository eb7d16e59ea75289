#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "operator/api/job/job_id.h"
#include "operator/scheduler/round.h"
#include "operator/view/cluster_view.h"
#include "operator/view/jobs/job_alarms.h"

namespace lockstep::control {

// How often a job is told that it has moved up in its queue: after `kMoveToldEvery`, and a second
// more for each place of any queue that is farther to the front. Choice: the next ones see each
// move, and of 1,000 jobs in however many queues, of which one starts each second, fewer than 5 are
// told in a second.
inline constexpr std::chrono::seconds kMoveToldEvery{10};
inline constexpr std::chrono::seconds kMoveToldPerPlace{1};

// Where jobs stand in their queues as the newest round has it, and who is to be told that this is
// not what its status says.
// Thread: one, the controller's.
class QueueLine {
 public:
  // `view` outlives it.
  explicit QueueLine(const ClusterView* view) : view_(view) {}

  // A round has numbered all that wait. Cost: a look-up for each.
  void Set(const std::vector<LinePosition>& line, WallTime now);

  // Null: the job is not in line.
  std::optional<int64_t> PositionOf(const JobId& key) const;

  // The same for the job that has its turn, and will say so.
  std::optional<int64_t> Tell(const JobId& key, WallTime now);

  // Jobs that are to have a turn for their positions alone.
  std::vector<JobId> TakeDue(WallTime now);

  // When the next is; null: none.
  std::optional<WallTime> NextDue() const { return moved_.First(); }

  void Clear() { *this = QueueLine(view_); }

 private:
  // In the last turn of this process. The write of the position may be under way.
  struct Told {
    WallTime at;
    std::optional<int64_t> position;
  };

  bool IsToldOtherwise(const JobId& key, int64_t position) const;

  const ClusterView* view_;
  std::map<JobId, int64_t> positions_;
  std::map<JobId, Told> told_;  // of positions_
  JobAlarms moved_;
};

}  // namespace lockstep::control
