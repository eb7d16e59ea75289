#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "common/contract/status/status_document.h"
#include "common/contract/status/termination_message.h"
#include "operator/cli/pods/local_poller.h"
#include "operator/cli/run/chaos.h"
#include "operator/cli/run_folder/checkpoint_watch.h"
#include "operator/cli/run_folder/model_records.h"
#include "operator/cli/summary/epoch_history.h"
#include "operator/cli/summary/recovery.h"
#include "operator/cli/summary/summary.h"
#include "operator/cli/terminal/console.h"
#include "operator/local/pod_runner.h"

namespace lockstep::control {

struct RunRecordOptions {
  std::optional<int64_t> batch_size;  // samples a step; null for commands, which report no steps
  std::size_t gang_size = 0;          // pods of the job
  TimePoint started;
  std::string run_directory;
  std::vector<FoundCheckpoint> newest_checkpoints{};  // of each model, that lay there before
  ModelsOfPods models{};                              // each process of several tells of its own
};

// What happened in a run so far: every pod that ever ran, the newest reports, the recoveries.
// Bookkeeping only; it decides nothing. Thread: one.
class RunRecord {
 public:
  explicit RunRecord(RunRecordOptions options);

  void OnPodEvent(const PodEvent& event);

  // The operator gives up a pod that still runs, for this cause.
  void OnGivenUp(const kube::Pod& pod, const std::string& cause, TimePoint now);

  void OnReport(const StatusArrival& arrival);

  // The run is stopped from outside. `is_restarting`: what is lost was being made good, so that it
  // is no end of the job. Time is lost up to now.
  void OnStop(bool is_restarting, TimePoint now);

  RecoveryTracker& recoveries() { return recoveries_; }

  CheckpointWatch& checkpoints() { return checkpoints_; }

  EpochHistory& history() { return history_; }

  // Whether the newest state is not on disk: a process ended because it could not write its model,
  // or no checkpoint was written since one failed.
  bool has_unsaved_model() const {
    return has_unsaved_model_ || !checkpoints_.Tally().last_error.empty();
  }

  // Whether a loss is known that training has not come through yet.
  bool is_recovering() const { return !lost_.empty() || recoveries_.is_recovering(); }

  // Whether this run has a state of its own: a step, or a checkpoint that it goes on from.
  bool is_under_way() const { return is_under_way_; }

  // What there is to say since the last call: of the checkpoints, and of a command that has lost
  // what it had come to.
  std::vector<CheckpointRemark> TakeRemarks();

  // How far each model is trained, also where the pods that told so are lost and nobody has said
  // that training goes on at an earlier step. Nothing of a command, whose state is its own.
  TrainedSteps Trained() const;

  // The report with the highest step, the newest of those; null when none came.
  const StatusDocument* Leading() const;

  // What the chaos schedule decides by.
  ChaosView ViewForChaos(std::size_t gang_size, TimePoint now);

  // Current pod of a task that has a process; empty if none.
  std::string RunningPodOf(const TaskId& task) const;

  // The pods that have ended with exit code 0, by start.
  std::vector<std::string> Succeeded() const;

  // Fills in what this object knows.
  void FillProgress(Progress* progress) const;
  void FillSummary(TimePoint now, RunSummary* summary) const;

 private:
  struct StepSeen {
    int64_t step = 0;
    TimePoint at;
    int64_t samples = 0;  // of its model, used up to there; 0: not told
  };

  void OnStarted(const PodEvent& event);
  void OnEnded(const PodEvent& event);
  void NoteEnd(const PodEvent& event, PodRecord* record);
  void NotePace(const TaskId& task, const StepSeen& seen);
  void NoteFallBack(int64_t step);
  double SamplesSeen() const;
  double Pace(const std::vector<DataEpochResult>& history) const;
  bool TellsHistory(const TaskId& task) const;
  void NoteLastWords(const std::string& pod, const TerminationMessage& message);
  int64_t Reached() const;
  void FillOneModel(RunSummary* summary) const;
  void FillModels(RunSummary* summary) const;

  RunRecordOptions options_;
  RecoveryTracker recoveries_;
  CheckpointWatch checkpoints_;
  EpochHistory history_;
  ModelRecords models_;  // of several: what else is kept of results here is of the only one
  bool has_unsaved_model_ = false;
  bool is_under_way_ = false;
  std::vector<PodRecord> pods_;
  std::map<TaskId, std::string> running_;         // task -> pod with a process
  std::map<std::string, TimePoint> last_heard_;   // by pod
  std::map<std::string, TimePoint> failing_;      // by pod of a command: it ends what is left in it
  std::map<TaskId, RecoveryTracker::Loss> lost_;  // without a replacement yet
  std::map<TaskId, StatusDocument> reports_;      // newest of each task
  // What processes said last: it outlives their status documents.
  std::optional<SampleCounts> final_samples_;
  std::optional<TestResult> final_result_;
  std::optional<double> final_loss_;
  std::optional<Step> final_step_;
  std::optional<int64_t> final_steps_total_;
  std::optional<int64_t> final_steps_skipped_;  // up to final_step_
  int64_t final_data_epoch_ = 0;
  std::optional<Step> last_checkpoint_step_;
  std::optional<TimePoint> all_running_since_;
  std::optional<TimePoint> stopped_at_;

  // The first and the newest step that were reported: the pace of this run, whatever step it
  // resumed from.
  std::optional<StepSeen> first_seen_;
  std::optional<StepSeen> last_seen_;

  // The same since training last went back to a checkpoint: by these it will end.
  std::optional<StepSeen> pace_from_;
  std::optional<StepSeen> pace_to_;
  std::map<TaskId, int64_t> highest_;   // step that each task has reported since then
  std::size_t losses_before_fall_ = 0;  // that an earlier fall back came of
  std::vector<CheckpointRemark> falls_;
};

}  // namespace lockstep::control
