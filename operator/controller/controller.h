#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/controller/calendar.h"
#include "operator/controller/cluster.h"
#include "operator/controller/put_back_pace.h"
#include "operator/kubeclient/kube/work_queue.h"

namespace lockstep::control {

struct ControllerOptions {
  // A turn that failed is repeated after `retry_delay_min`, doubling up to the maximum.
  Duration retry_delay_min = std::chrono::milliseconds(100);  // choice: a hiccup goes unnoticed
  Duration retry_delay_max = std::chrono::seconds(30);        // choice: an outage is not hammered

  // Jobs that are taken up in one step. Choice: what is heard meanwhile waits for the step's end,
  // some milliseconds.
  std::size_t jobs_at_once = 32;

  // Jobs whose turns may be under way. Choice: those that wait for something slow hold up nobody,
  // and the calls that they hold ready fit into some tens of megabytes.
  std::size_t turns_max = 256;

  // A status that differs from the stored one in nothing but progress is not written again before
  // this has passed.
  Duration progress_interval{};

  // The same, where pods that run or do not run yet have been counted anew.
  Duration counts_interval{};

  // The same, where a job waits for the same reason as before in other words, or at another
  // position in its queue: a shortfall's figures change with every pod of others that comes or
  // goes.
  Duration words_interval{};
};

enum class TurnResult {
  kDone,     // nothing to do until something changes
  kWaiting,  // nothing to do until a moment that is known
  kFailed,   // to be repeated
};

// One turn, for metrics.
struct TurnReport {
  JobId key;
  TurnResult result = TurnResult::kDone;
  Duration waited{};  // since the job became due
  Duration taken{};   // by its turn, waiting for answers included
};

// Gives each job that is due a turn: look, decide, write the status, then act as it says. Every
// turn waits for its own answers alone; a job has one turn at a time, and what it is promised or
// about to give up is taken until its turn has answers. No threads, no sockets, no clock of its
// own: the caller says what time it is and when something changed.
//
// Thread: one. `cluster` and `logger` outlive it.
class Controller {
 public:
  Controller(Cluster* cluster, Logger* logger, Calendar calendar, ControllerOptions options = {});

  // Precondition (checked): no turn is under way.
  void SetCalendar(Calendar calendar);

  const Calendar& calendar() const { return calendar_; }

  // Something about the job changed: its manifest, a pod, a node, a report. Many calls before the
  // next Step make one turn. First come, first served.
  void Notify(const JobId& key, TimePoint now);

  // The same, but what follows until `when` may join it.
  void NotifyAt(const JobId& key, TimePoint when);

  // Goes on with the turns that have answers, and begins those of some jobs that changed or whose
  // time has come. Returns the turns that are over.
  std::vector<TurnReport> Step(TimePoint now);

  // Ends all turns where they stand: their jobs are looked at anew when they are due again.
  void Abandon(TimePoint now);

  // No turn begins any more.
  void Drain() { is_draining_ = true; }

  // No turn is under way.
  bool is_idle() const { return turns_.empty(); }

  // When Step has something to do if nothing changes or is answered before: in the past while jobs
  // are waiting, null if never.
  std::optional<TimePoint> NextStep() const { return MayBegin() ? queue_.NextDue() : std::nullopt; }

  // For metrics.
  const kube::WorkQueue<JobId>& queue() const { return queue_; }

  // Jobs whose last status the API server refused, with its words.
  const std::map<JobId, std::string>& refused_statuses() const { return refused_statuses_; }

 private:
  // One job on its way through its turn.
  struct JobTurn {
    enum class Stage { kLooking, kWriting, kActing };

    Stage stage = Stage::kLooking;
    TurnReport report;
    TimePoint begun{};
    TrainingJob job;  // with the status that was decided
    Decision decision;
    std::vector<Effect> effects;  // that are being carried out
    std::optional<TimePoint> wakeup;
    bool is_put_back = false;  // the status is as it was, but others have written in it
  };

  bool MayBegin() const { return !is_draining_ && turns_.size() < options_.turns_max; }

  // Each returns whether the turn is over.
  bool GoOn(JobTurn* turn, const std::vector<Status>& answers, TimePoint now);
  bool DecideOn(JobTurn* turn, TimePoint now);
  bool Act(JobTurn* turn);

  std::optional<TimePoint> FiguresTime(const JobTurn& turn, TimePoint now) const;
  std::optional<TimePoint> WriteTime(const JobTurn& turn, TimePoint now) const;
  void NotePutBack(JobTurn* turn, TimePoint now);
  void NoteLookFailure(JobTurn* turn, const Error& error);
  void NoteWriteFailure(JobTurn* turn, const Error& error);
  void TellOfRefusal(const JobId& key, const std::string& what, Event event);
  bool AreDone(const JobTurn& turn, const std::vector<Status>& answers);
  void PlanWakeup(JobTurn* turn);
  void Finish(JobTurn* turn, TimePoint now);

  Cluster* cluster_;
  Logger* logger_;
  ControllerOptions options_;
  Calendar calendar_;
  kube::WorkQueue<JobId> queue_;
  std::map<JobId, JobTurn> turns_;
  std::map<JobId, TimePoint> written_at_;  // the last status write
  std::map<JobId, std::string> refused_statuses_;
  PutBackPace put_back_pace_;
  bool is_draining_ = false;
};

}  // namespace lockstep::control
