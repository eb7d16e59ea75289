#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "common/contract/status/status_document.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/cli/run_folder/checkpoint_watch.h"
#include "operator/cli/run_folder/model_records.h"
#include "operator/cli/summary/recovery.h"

namespace lockstep::control {

// How a run ended.
enum class RunOutcome { kSucceeded, kFailed, kRefused, kStopped };

// "succeeded", "failed", "refused", "stopped".
std::string_view RunOutcomeName(RunOutcome outcome);

// Exit codes of `lockstep`.
inline constexpr int kCliSucceeded = 0;
inline constexpr int kCliFailed = 1;     // the job failed, or the run could not be carried out
inline constexpr int kCliUsage = 2;      // bad manifest or arguments
inline constexpr int kCliRefused = 3;    // the job does not fit this machine
inline constexpr int kCliStopped = 130;  // 128 + SIGINT

int ExitCodeOf(RunOutcome outcome);

// One pod that ever ran, for comparing process ids before and after a failure.
struct PodRecord {
  std::string name;
  TaskId task;
  Attempt attempt;
  Incarnation incarnation;
  int64_t pid = 0;
  Duration started{};  // since the run began
  std::optional<Duration> ended;
  std::optional<int> exit_code;
  bool was_asked = false;     // to end, before it did
  std::string reason;         // as the kubelet words it
  std::string message;        // its last words: one line
  bool left_no_word = false;  // ended by itself, and not with last words as the contract has them
  std::string log_file;
  int64_t lost_output_bytes = 0;  // that it printed and its log could not take
  std::string metrics;  // where its /metrics was while it ran: "http://127.83.7.1:12033/metrics"
};

// Everything a run has to say at its end.
struct RunSummary {
  std::string job;
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  bool is_training = false;   // the built-in trainer: the figures below are its own
  bool saves_at_stop = true;  // whether the job's strategy has a trainer write a checkpoint then
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;
  std::optional<double> loss;  // over the last data epoch, up to the last step
  // By rank, where each trains a model of its own; then the above are the means over all of them,
  // and steps, their total, those skipped and the data epoch are of the model that is furthest.
  std::vector<ModelRecord> models;
  std::vector<DataEpochResult> history;
  int64_t steps = 0;
  std::optional<int64_t> steps_total;
  int64_t steps_skipped = 0;                 // of `steps`, that changed nothing (Float16)
  int64_t steps_repeated = 0;                // as the job's status has it
  std::optional<int64_t> data_epochs_total;  // where the manifest counts in them
  int64_t data_epoch = 0;                    // of the newest step that was reported
  double samples_per_second = 0;             // from the first to the last step, failures included
  std::optional<SampleCounts> samples;       // known when training has ended
  int64_t models_uncounted = 0;              // whose samples are not in these
  bool has_final_samples = true;             // as of the last step, and not up to a second before
  std::vector<RestartCount> restarts;
  std::vector<Recovery> recoveries;
  std::vector<PodRecord> pods;
  Duration elapsed{};
  Duration time_lost{};  // of a command: in which not all pods ran, which is not all that was lost
  std::string run_directory;
  std::string manifest_file;                        // as it was given; empty: none was
  std::vector<std::string> manifest_changes;        // "--set", "spec.seed=1": as they were given
  std::string checkpoint_directory;                 // empty: none were to be written
  std::optional<Step> last_checkpoint_step;         // of the newest in that folder
  std::vector<FoundCheckpoint> newest_checkpoints;  // in that folder, of each model
  CheckpointTally checkpoints;
  bool left_earlier_run = false;  // it did not begin, and the run before in its folder stands
  int64_t lost_log_lines = 0;     // of the operator's own log
  std::vector<std::string> chaos_not_fired;  // as they were given
};

// How far each model was trained, by the rank whose it is; of the only one by none.
using TrainedSteps = std::map<std::optional<int64_t>, Step>;

// The first of the models whose steps a stop has left in no checkpoint, `newest` being each one's
// newest; absent: all are saved. Pure.
std::optional<TrainedSteps::value_type> FirstUnsaved(const TrainedSteps& trained,
                                                     const std::vector<FoundCheckpoint>& newest);

// Why a stop left the steps of `unsaved` in no checkpoint: ", and the checkpoint could not be
// written by mnist-worker-0: ...", or that nobody was left to try. `was_tried`: it is known that
// somebody did, whatever the summary has of it; then `unsaved` may be absent. Pure.
std::string WhyUnsaved(const RunSummary& summary,
                       const std::optional<TrainedSteps::value_type>& unsaved,
                       bool was_tried);

// Whether all steps were trained before the run began.
bool HadNothingToTrain(const RunSummary& summary);

// Whether the loss of the last data epoch that came to its end, or a model's, is no finite number:
// the job asks to train on then, and what it saves is most likely of no use.
bool LossIsNotFinite(const RunSummary& summary);

// Several lines for people, each ending in a newline.
std::string FormatSummary(const RunSummary& summary);

// The same for programs; docs/reference/summary.md lists the keys. What is not known is null.
Json EncodeSummary(const RunSummary& summary);

// "killed worker-1: recovered in 0.71 s (detect 0.00, spawn 0.02, ...)": one recovery for people.
std::string FormatRecovery(const Recovery& recovery);

}  // namespace lockstep::control
