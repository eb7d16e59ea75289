#include "operator/cli/summary/summary.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>

#include "common/base/plural.h"
#include "common/base/whole_milliseconds.h"
#include "common/contract/status/exit_code.h"
#include "operator/cli/run_folder/checkpoint_folder.h"
#include "operator/cli/summary/figures.h"
#include "operator/cli/terminal/shell_words.h"

namespace lockstep::control {
namespace {

std::string Seconds(Duration duration) {
  return Fixed(ToSeconds(duration), 2);
}

std::string Line(const std::string& label, const std::string& text) {
  std::string line = "  " + label;
  line.resize(std::max<std::size_t>(line.size() + 1, 16), ' ');
  return line + text + "\n";
}

// Unknown where no two reports met a step.
std::string FormatPace(double samples_per_second) {
  return samples_per_second > 0 ? ", " + Fixed(samples_per_second, 0) + " samples/s" : "";
}

// "1200 of 1800, 2210 samples/s". A job that was made shorter has more behind it than it asks for.
std::string FormatSteps(const RunSummary& summary) {
  const int64_t total = summary.steps_total.value_or(summary.steps);
  const bool had_nothing = HadNothingToTrain(summary);
  std::string text = std::to_string(summary.steps);
  if (summary.steps_total && total >= summary.steps) {
    text += " of " + std::to_string(total);
  }
  text += had_nothing ? " before this run" : "";
  if (summary.steps_skipped > 0) {
    text +=
        ", " + std::to_string(summary.steps_skipped) + " skipped (gradients too large for Float16)";
  }
  text += AreEquallyFar(summary.models) ? "" : ", for the model with the most steps";
  if (total < summary.steps) {
    text += ", although the job asks for " + std::to_string(total);
  }
  return text +
         (had_nothing ? ": nothing was left to train" : FormatPace(summary.samples_per_second));
}

std::string FormatModels(const std::vector<ModelRecord>& models) {
  const bool is_any_known = std::ranges::any_of(
      models, [](const ModelRecord& model) { return model.step || model.result; });
  if (!models.empty() && !is_any_known) {
    return Line("models",
                "nothing is known about the " + std::to_string(models.size()) + " models");
  }
  std::string text;
  for (const ModelRecord& model : models) {
    text += Line("model " + std::to_string(model.rank), FormatModel(model));
  }
  return text;
}

std::string FormatTraining(const RunSummary& summary) {
  std::string text = Line("steps", FormatSteps(summary));
  const std::string of_models =
      summary.models.empty() ? ""
                             : ", mean of " + std::to_string(summary.models.size()) + " models";
  if (summary.loss || LossIsNotFinite(summary)) {
    text += Line("training loss",
                 (summary.loss ? Fixed(*summary.loss, 4) : "not a finite number") + of_models);
  }
  if (summary.test_accuracy) {
    text += Line("test accuracy", FormatTest(summary.test_accuracy, summary.test_loss) + of_models);
  } else if (summary.test_loss) {
    text += Line("test loss", Fixed(*summary.test_loss, 4) + of_models);
  }
  text += FormatModels(summary.models);
  if (summary.samples) {
    text += Line("samples",
                 std::to_string(summary.samples->consumed) + " used, " +
                     std::to_string(summary.samples->lost) + " lost, " +
                     std::to_string(summary.samples->repeated) + " repeated" +
                     (summary.models_uncounted > 0
                          ? ", without the samples of " + Plural(summary.models_uncounted, "model")
                          : "") +
                     (summary.has_final_samples ? "" : ", counted to about 1 s before the end"));
  }
  return text;
}

// Of each task the one that came last.
std::map<TaskId, const PodRecord*> LastPods(const RunSummary& summary) {
  std::map<TaskId, const PodRecord*> last;
  for (const PodRecord& pod : summary.pods) {
    last[pod.task] = &pod;
  }
  return last;
}

// A program that says nothing has only its exit for last words, which is told once. Who was asked
// to end was killed by nobody, and is told from whose end was the reason.
std::string DescribeEnd(const PodRecord& pod) {
  const int code = *pod.exit_code;
  const int signal = code > kExitSignalBase ? code - kExitSignalBase : 0;
  const std::string exit = DescribeExit(code, signal, pod.reason);
  const bool has_obeyed = pod.was_asked && (code == kExitPreempted || signal == SIGTERM);
  return (has_obeyed ? "ended on request (exit code " + std::to_string(code) + ")" : exit) +
         (pod.message.empty() || pod.message == exit ? "" : ": " + pod.message);
}

// Parameter servers and evaluators have no end of their own.
bool IsRank(const PodRecord& pod) {
  return pod.task.role == Role::kChief || pod.task.role == Role::kWorker;
}

// Only ranks fail in a job that succeeds all the same.
bool HasFailed(const RunSummary& summary, const PodRecord& pod) {
  return pod.exit_code.value_or(0) != 0 &&
         (IsRank(pod) || summary.outcome != RunOutcome::kSucceeded);
}

// When the first of the tasks failed for good, since the run began.
std::optional<Duration> FirstFailure(const RunSummary& summary) {
  std::optional<Duration> first;
  for (const auto& [task, pod] : LastPods(summary)) {
    if (HasFailed(summary, *pod) && pod->ended) {
      first = std::min(first.value_or(*pod->ended), *pod->ended);
    }
  }
  return first;
}

// Whether the others of a command that failed may have missed this pod, which ended before them.
bool HadLeft(const RunSummary& summary, const PodRecord& pod, std::optional<Duration> failure) {
  return pod.exit_code == 0 && pod.ended < failure && !summary.is_training &&
         summary.outcome != RunOutcome::kSucceeded;
}

// The pods whose end explains a failure: each task's last one, where it failed, and those that had
// left before.
std::string FormatCulprits(const RunSummary& summary) {
  const auto last = LastPods(summary);
  const std::optional<Duration> first_failure = FirstFailure(summary);
  std::map<std::string, int64_t> likewise;  // by how they ended
  for (const auto& [task, pod] : last) {
    likewise[HasFailed(summary, *pod) ? DescribeEnd(*pod) : ""] += 1;
  }
  std::string text;
  for (const auto& [task, pod] : last) {
    if (HasFailed(summary, *pod)) {
      const std::string how = DescribeEnd(*pod);
      const int64_t count = std::exchange(likewise[how], 0);  // told with the first
      text += count == 0  ? ""
              : count > 1 ? Line(TaskName(task), how + "; likewise " + Plural(count - 1, "other"))
                          : Line(TaskName(task), how);
    } else if (HadLeft(summary, *pod, first_failure)) {
      text += Line(
          TaskName(task),
          "exit code 0, " + Seconds(*first_failure - *pod->ended) + " s before the first failure");
    }
  }
  return text;
}

// "worker-1 (killed)", "rank 3 in worker-1 (process lost)", "one of worker-0 (crash) and worker-1
// (program_exit)", "worker-0 (killed) and worker-1 (killed), within 3 ms".
std::string DescribeLoss(const Recovery& recovery) {
  if (!recovery.other_culprits.empty()) {
    std::string names = TaskName(recovery.culprit) + " (" + recovery.cause + ")";
    for (std::size_t i = 0; i < recovery.other_culprits.size(); ++i) {
      const auto& [task, cause] = recovery.other_culprits[i];
      names += (i + 1 < recovery.other_culprits.size() ? ", " : " and ") + TaskName(task) + " (" +
               cause + ")";
    }
    return recovery.all_within ? names + ", within " + WholeMilliseconds(*recovery.all_within)
                               : "one of " + names;
  }
  const std::string rank =
      recovery.lost_rank ? "rank " + std::to_string(*recovery.lost_rank) + " in " : "";
  return rank + TaskName(recovery.culprit) + " (" + recovery.cause + ")";
}

// A successor that came after the last step had nothing to come back to.
std::string FormatRecoveryIn(const RunSummary& summary, const Recovery& recovery) {
  const bool came_after_the_end =
      summary.is_training && summary.outcome == RunOutcome::kSucceeded && !recovery.over_at;
  return came_after_the_end ? DescribeLoss(recovery) + ": no step was left to train"
                            : FormatRecovery(recovery);
}

// Training stood still in none of the time that these took, and yet it was lost.
std::string FormatRepeated(const RunSummary& summary) {
  if (!summary.is_training || summary.steps_repeated == 0) {
    return "";
  }
  return ", and " + Plural(summary.steps_repeated, "step") + " had to be repeated";
}

std::string FormatRestarts(const RunSummary& summary) {
  int64_t count = 0;
  std::string causes;
  for (const RestartCount& restart : summary.restarts) {
    count += restart.count;
    causes += (causes.empty() ? "" : ", ") + restart.cause + " " + std::to_string(restart.count);
  }
  const auto replaced = std::ranges::count_if(
      summary.recoveries, [](const Recovery& recovery) { return recovery.lost_rank.has_value(); });
  std::string text =
      Line("restarts",
           std::to_string(count) + (count > 0 ? ": " + causes : "") +
               (replaced > 0 ? "; processes replaced within their pods: " + std::to_string(replaced)
                             : ""));
  for (const Recovery& recovery : summary.recoveries) {
    text += Line("", FormatRecoveryIn(summary, recovery));
  }
  if (!summary.recoveries.empty()) {
    text += Line(summary.is_training ? "time lost" : "gang broken",
                 Seconds(summary.time_lost) + " s of " + Seconds(summary.elapsed) + " s" +
                     FormatRepeated(summary));
  }
  return text;
}

// " job.yaml --workers 2" behind a command; what came through standard input has no name.
std::string ManifestWords(const RunSummary& summary) {
  const std::string& file = summary.manifest_file;
  std::string words = file.empty() ? "" : file == "-" ? " FILE" : " " + QuoteShellWord(file);
  for (const std::string& change : summary.manifest_changes) {
    words += " " + QuoteShellWord(change);
  }
  return words;
}

// "fix the cause above, then " where a pod's last end is one that going on meets again
// until then: an error in the input, a full disk, a loss that is no number, a program that is not
// there, one with a code of its own, or one whose ranks disagree on when they are done.
std::string FirstPutRight(const RunSummary& summary) {
  const auto last = LastPods(summary);
  const std::optional<Duration> first_failure = FirstFailure(summary);
  const bool is_needed = std::ranges::any_of(last, [&](const auto& entry) {
    const PodRecord& pod = *entry.second;
    const bool left_early =
        IsRank(pod) && HadLeft(summary, pod, first_failure) && summary.steps < summary.steps_total;
    return left_early ||
           (pod.exit_code && *pod.exit_code < kExitSignalBase &&
            ClassifyExit(*pod.exit_code, 0, pod.reason).outcome == Outcome::kPermanent);
  });
  const std::string of_program = "cause " + std::string(ExitCauseName(ExitCause::kProgramExit));
  const bool is_said = summary.reason.find(of_program) != std::string::npos;
  return (is_needed || is_said) && summary.outcome == RunOutcome::kFailed
             ? "fix the cause above, then "
             : "";
}

// Which command goes on with this run, and where it begins.
std::string FormatWayOn(const RunSummary& summary) {
  const std::string command = "lockstep run --resume " + QuoteShellWord(summary.run_directory);
  // The run's folder keeps another manifest: that of an earlier run, or one to be put right first.
  const std::string anew = command + ManifestWords(summary);
  const std::string left = "; this attempt did not change the earlier run";
  if (const std::string first = FirstPutRight(summary); !first.empty()) {
    return Line("to continue", first + anew + (summary.left_earlier_run ? left : ""));
  }
  if (summary.left_earlier_run) {
    return Line("to continue", anew + left);
  }
  if (summary.last_checkpoint_step || summary.checkpoints.is_unreadable) {
    return Line("to continue", command);
  }
  return Line(
      "to continue",
      (summary.steps > 0 ? "no checkpoint: the training is lost; " : "no checkpoint yet; ") +
          command + " starts at step 0");
}

// Then the model is as it was at the beginning.
bool HasSkippedAll(const RunSummary& summary) {
  return summary.steps > 0 && summary.steps_skipped >= summary.steps;
}

// Where they are, which is the newest, and what became of the others.
std::string FormatCheckpoints(const RunSummary& summary) {
  const std::optional<Step> newest = summary.last_checkpoint_step;
  std::string text = summary.checkpoint_directory;
  const CheckpointTally& tally = summary.checkpoints;
  if (tally.is_unreadable) {
    text += ", which cannot be read: " + tally.last_error;
  }
  text += newest
              ? ", newest of " +
                    StepsBetween(LowestOf(summary.newest_checkpoints).value_or(*newest), *newest) +
                    ModelsWithout(summary.newest_checkpoints, summary.models.size())
          : tally.is_unreadable ? ""
                                : ", which has no checkpoint";
  if (tally.failed > 0) {
    text += ", " + std::to_string(tally.failed) + " not written" +
            (tally.last_error.empty() ? "" : " (" + tally.last_error + ")");
  }
  if (tally.skipped > 0) {
    text += ", " + std::to_string(tally.skipped) + " skipped";
  }
  text = Line("checkpoints", text);
  if (newest && LossIsNotFinite(summary)) {
    text +=
        Line("warning",
             HasSkippedAll(summary)
                 ? "nothing was learned: all steps were skipped, because gradients were not finite "
                   "in Float16 even at the smallest loss scale; precision: BFloat16 may help"
                 : "the loss is not a finite number, and the saved model probably has values that "
                   "are not finite; to continue anyway, set spec.training.terminateOnNaN: false");
  }
  if (HadNothingToTrain(summary)) {
    // In the unit that the manifest has: it takes no other beside it.
    // A job that was made shorter has done more epochs than it asks for.
    const std::optional<int64_t>& epochs = summary.data_epochs_total;
    const int64_t done = epochs ? std::max(*epochs, summary.data_epoch) : summary.steps;
    text += Line("to continue",
                 "raise the number of " + std::string(epochs ? "epochs" : "steps") +
                     ": lockstep run --resume " + QuoteShellWord(summary.run_directory) +
                     " --set spec.training." + (epochs ? "epochs" : "steps") + "=N, N above " +
                     std::to_string(done));
  }
  return summary.outcome == RunOutcome::kSucceeded ? text : text + FormatWayOn(summary);
}

// Where they are, and what is not in them.
std::string FormatLogs(const RunSummary& summary) {
  std::string text = summary.run_directory + "/pods/*/pod.log";
  for (const PodRecord& pod : summary.pods) {
    if (pod.lost_output_bytes > 0) {
      text += ", without " + std::to_string(pod.lost_output_bytes) + " bytes of " + pod.name;
    }
  }
  if (summary.lost_log_lines > 0) {
    text += "; " + std::to_string(summary.lost_log_lines) + " lines are missing in lockstep.log";
  }
  return Line("logs", text);
}

std::string FormatMissedChaos(const RunSummary& summary) {
  std::string actions;
  for (const std::string& action : summary.chaos_not_fired) {
    actions += (actions.empty() ? "" : ", ") + action;
  }
  return actions.empty() ? "" : Line("chaos", "not injected: " + actions);
}

}  // namespace

std::optional<TrainedSteps::value_type> FirstUnsaved(const TrainedSteps& trained,
                                                     const std::vector<FoundCheckpoint>& newest) {
  const auto unsaved = std::ranges::find_if(trained, [&newest](const auto& model) {
    return model.second > Step() &&
           std::ranges::none_of(newest, [&model](const FoundCheckpoint& checkpoint) {
             return checkpoint.rank == model.first && checkpoint.step >= model.second;
           });
  });
  return unsaved == trained.end() ? std::nullopt : std::optional(*unsaved);
}

std::string WhyUnsaved(const RunSummary& summary,
                       const std::optional<TrainedSteps::value_type>& unsaved,
                       bool was_tried) {
  const CheckpointTally& tally = summary.checkpoints;
  std::string step = "the newest step";
  if (unsaved) {
    step = "step " + std::to_string(unsaved->second.value()) +
           (unsaved->first ? " of model " + std::to_string(*unsaved->first) : "");
  }
  if (tally.is_unreadable) {
    return ", and it is not known whether " + step + " is saved: " + tally.last_error;
  }
  const std::string failed =
      tally.last_error.empty()
          ? ""
          : "could not be written by " + tally.last_error_pod + ": " + tally.last_error;
  if (!summary.saves_at_stop) {
    return ", and " + step + " was not saved: ParameterServer writes no checkpoint at a stop" +
           (failed.empty() ? "" : "; the newest checkpoint " + failed);
  }
  if (!failed.empty()) {
    return ", and the checkpoint " + failed;
  }
  for (const auto& [task, pod] : LastPods(summary)) {
    if (pod->left_no_word) {
      return ", and " + step + " was not saved; " + pod->name + " gave no reason";
    }
  }
  return was_tried ? ", and the checkpoint could not be written"
                   : ", and no process was left to save " + step;
}

bool LossIsNotFinite(const RunSummary& summary) {
  const bool is_one =
      summary.is_training && !summary.history.empty() && !summary.history.back().loss;
  return is_one || std::ranges::any_of(summary.models, [](const ModelRecord& model) {
           return model.result && !model.result->training_loss;
         });
}

bool HadNothingToTrain(const RunSummary& summary) {
  // After a loss the checkpoint may be one of this run.
  if (summary.outcome != RunOutcome::kSucceeded || !summary.recoveries.empty()) {
    return false;
  }
  if (!summary.models.empty()) {
    return std::ranges::all_of(summary.models, [](const ModelRecord& model) {
      return IsTrained(model) && model.first_step &&
             model.first_step->value() >= *model.steps_total;
    });
  }
  return summary.steps_total && summary.checkpoints.restored_step &&
         summary.checkpoints.restored_step->value() >= *summary.steps_total;
}

std::string_view RunOutcomeName(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return "succeeded";
    case RunOutcome::kFailed:
      return "failed";
    case RunOutcome::kRefused:
      return "refused";
    case RunOutcome::kStopped:
      return "stopped";
  }
  return "failed";
}

int ExitCodeOf(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return kCliSucceeded;
    case RunOutcome::kFailed:
      return kCliFailed;
    case RunOutcome::kRefused:
      return kCliRefused;
    case RunOutcome::kStopped:
      return kCliStopped;
  }
  return kCliFailed;
}

std::string FormatRecovery(const Recovery& recovery) {
  std::string text = DescribeLoss(recovery) + ": ";
  if (!recovery.over_at) {
    return text + "not recovered";
  }
  const bool has_step = recovery.next_step_at.has_value();
  const bool is_of_ps = has_step && IsOfPsAlone(recovery);  // without a step, of a command
  text += (is_of_ps   ? "each shard has two copies again after "
           : has_step ? "training again after "
                      : "running again after ") +
          Seconds(*recovery.over_at - recovery.fault_at) + " s" +
          (recovery.relaunch ? ", in the same pods" : "");
  if (recovery.parts) {
    const RecoveryParts& parts = *recovery.parts;
    text += " = detect " + Seconds(parts.detect) + " + spawn " + Seconds(parts.spawn) +
            " + engine " + Seconds(parts.engine_load) + " + rendezvous " +
            Seconds(parts.rendezvous) + " + state " + Seconds(parts.state) + " + step " +
            Seconds(parts.step);
  }
  return text;
}

std::string FormatSummary(const RunSummary& summary) {
  std::string text = summary.job + " " + std::string(RunOutcomeName(summary.outcome)) + " after " +
                     Seconds(summary.elapsed) + " s" +
                     (summary.reason.empty() ? "" : ": " + summary.reason) + "\n";
  if (summary.is_training || summary.steps > 0) {
    text += FormatTraining(summary);
  }
  // A command's job may have succeeded without some of its ranks.
  if (summary.outcome == RunOutcome::kFailed ||
      (summary.outcome == RunOutcome::kSucceeded && !summary.is_training)) {
    text += FormatCulprits(summary);
  }
  text += FormatRestarts(summary) + FormatMissedChaos(summary);
  text += FormatLogs(summary);
  if (!summary.checkpoint_directory.empty()) {
    return text + FormatCheckpoints(summary);
  }
  const std::string first = FirstPutRight(summary);
  return summary.outcome == RunOutcome::kSucceeded
             ? text
             : text +
                   Line("to continue",
                        first + "lockstep run --resume " + QuoteShellWord(summary.run_directory) +
                            (first.empty() ? "" : ManifestWords(summary)) +
                            "; the files in LOCKSTEP_CHECKPOINT_DIR are still there");
}

}  // namespace lockstep::control
