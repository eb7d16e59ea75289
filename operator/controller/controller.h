#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/controller/cluster.h"
#include "operator/kube/work_queue.h"

namespace lockstep::control {

struct ControllerOptions {
  // A pass that failed is repeated after `retry_delay_min`, doubling up to the maximum.
  Duration retry_delay_min = std::chrono::milliseconds(100);  // choice: a hiccup goes unnoticed
  Duration retry_delay_max = std::chrono::seconds(30);        // choice: an outage is not hammered

  // Jobs whose passes are made together. Choice: enough to keep the API server busy when jobs come
  // in crowds, and few enough that nobody waits long for a pass of its own.
  std::size_t jobs_at_once = 32;

  // No further job joins those that want this much done. Choice: each effect may be a pod of 30 KB,
  // and the last job to join may want some hundreds.
  std::size_t effects_at_once = 256;

  // A status that differs from the stored one in nothing but progress is not written again before
  // this has passed.
  Duration progress_interval{};
};

enum class TurnResult {
  kDone,     // nothing to do until something changes
  kWaiting,  // nothing to do until a moment that is known
  kFailed,   // to be repeated
};

// One pass, for metrics.
struct TurnReport {
  JobId key;
  TurnResult result = TurnResult::kDone;
  Duration waited{};  // since the job became due
};

// Gathers and decides, one job after the other, then acts for all of them side by side: first
// their statuses, then what those say. No threads, no sockets, no clock of its own: the caller
// says what time it is and when something changed.
//
// Calendar time runs with the monotonic clock from construction on, so that a step of the
// calendar clock neither expires nor extends a deadline.
// Thread: one. `cluster` and `logger` outlive it.
class Controller {
 public:
  // `now` and `wall_now` are the same moment on both clocks.
  Controller(Cluster* cluster,
             Logger* logger,
             TimePoint now,
             WallTime wall_now,
             ControllerOptions options = {});

  // Something about the job changed: its manifest, a pod, a node, a report. Many calls before the
  // next Step make one pass. First come, first served.
  void Notify(const JobId& key, TimePoint now);

  // The same, but what follows until `when` may join it.
  void NotifyAt(const JobId& key, TimePoint when);

  // Makes one pass for each of some jobs that changed or whose time has come; none when no job is
  // due.
  std::vector<TurnReport> Step(TimePoint now);

  // When Step has something to do if nothing changes before: in the past while jobs are waiting,
  // null if never.
  std::optional<TimePoint> NextStep() const { return queue_.NextDue(); }

  // For metrics.
  const kube::WorkQueue<JobId>& queue() const { return queue_; }

 private:
  // One job on its way through a step.
  struct JobTurn {
    TurnReport report;
    TrainingJob job;  // with the status that was decided
    Decision decision;
    std::optional<TimePoint> wakeup;
    bool has_new_status = false;
    bool is_over = false;  // nothing is to be done for it any more
  };

  JobTurn Gather(const kube::WorkQueue<JobId>::Work& work, TimePoint now);
  std::optional<TimePoint> ProgressTime(const JobId& key,
                                        const Decision& decision,
                                        const TrainingJob& job,
                                        TimePoint now) const;
  TurnResult NoteReadFailure(const JobId& key, const Error& error);
  void WriteStatuses(std::vector<JobTurn>* turns, TimePoint now);
  void ApplyEffects(std::vector<JobTurn>* turns);
  bool IsDone(const JobEffects& wanted, const std::vector<Status>& answers);
  void Finish(JobTurn* turn, TimePoint now);
  WallTime WallAt(TimePoint now) const;

  Cluster* cluster_;
  Logger* logger_;
  ControllerOptions options_;
  TimePoint start_;
  WallTime wall_start_;
  kube::WorkQueue<JobId> queue_;
  std::map<JobId, TimePoint> written_at_;  // the last status write
};

}  // namespace lockstep::control
