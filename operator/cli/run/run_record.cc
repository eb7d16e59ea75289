#include "operator/cli/run/run_record.h"

#include <algorithm>
#include <utility>

#include "common/base/printable.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/text/last_line.h"
#include "operator/cli/pods/pod_ports.h"

namespace lockstep::control {
namespace {

// Shorter between the first and the newest step is no measure: a report may be met up to the 0.1 s
// late that lie between two of them, which is a tenth of this.
constexpr Duration kPaceSpanMin = std::chrono::seconds(1);

std::optional<TimePoint> Find(const std::map<std::string, TimePoint>& moments,
                              const std::string& pod) {
  const auto found = moments.find(pod);
  return found == moments.end() ? std::nullopt : std::optional(found->second);
}

bool SaysSuccess(const std::string& message) {
  const auto words = DecodeTerminationMessage(message);
  return words.ok() && words->outcome == Outcome::kSuccess;
}

}  // namespace

RunRecord::RunRecord(RunRecordOptions options)
    : options_(std::move(options)),
      recoveries_(options_.batch_size.has_value(), options_.gang_size, !options_.models.empty()),
      checkpoints_(options_.newest_checkpoints, options_.models),
      models_(options_.models) {}

void RunRecord::OnPodEvent(const PodEvent& event) {
  switch (event.change) {
    case PodChange::kStarted:
      OnStarted(event);
      return;
    case PodChange::kEnded:
      OnEnded(event);
      return;
    case PodChange::kOutputLost:
    case PodChange::kDeleted:
      return;
  }
}

void RunRecord::OnStarted(const PodEvent& event) {
  const auto name = ParsePodName(event.pod.name);
  if (!name) {
    return;
  }
  PodRecord record;
  record.name = event.pod.name;
  record.task = name->task;
  record.attempt = name->number.attempt;
  record.incarnation = name->number.incarnation;
  record.pid = event.pod.status.pid;
  record.started = event.at - options_.started;
  record.log_file = options_.run_directory + "/pods/" + event.pod.name + "/pod.log";
  if (!event.pod.status.pod_ip.empty()) {
    record.metrics = "http://" + event.pod.status.pod_ip + ":" +
                     std::to_string(StatusPortOf(event.pod)) + "/metrics";
  }
  pods_.push_back(std::move(record));
  if (event.pod.status.pid > 0) {
    running_[name->task] = event.pod.name;
  }
  // Only what is replaced was a loss to come through; what ends the job is its outcome.
  if (const auto lost = lost_.find(name->task); lost != lost_.end()) {
    recoveries_.PodLost(lost->second);
    lost_.erase(lost);
  }
  recoveries_.PodStarted(name->task, event.pod.name, event.at);
}

void RunRecord::OnEnded(const PodEvent& event) {
  for (PodRecord& record : pods_) {
    if (record.name == event.pod.name && event.pod.status.termination) {
      NoteEnd(event, &record);
    }
  }
  const auto name = ParsePodName(event.pod.name);
  if (!name) {
    return;
  }
  const auto running = running_.find(name->task);
  if (running != running_.end() && running->second == event.pod.name) {
    running_.erase(running);
  }
  if (event.pod.is_deleting || !event.pod.status.termination) {
    return;
  }
  const kube::ContainerTermination& end = *event.pod.status.termination;
  ExitVerdict verdict =
      VerdictUnasked(ClassifyExit(end.exit_code, end.signal, end.reason), end.message);
  if (verdict.outcome == Outcome::kSuccess) {
    if (!options_.batch_size || SaysSuccess(end.message)) {
      recoveries_.PodSucceeded();
      return;
    }
    verdict = {Outcome::kRetryable, ExitCause::kUnknown};  // a trainer that is done says so
  }
  lost_[name->task] = {name->task,
                       event.pod.name,
                       std::string(ExitCauseName(verdict.cause)),
                       event.at,
                       Find(failing_, event.pod.name)};
}

void RunRecord::NoteEnd(const PodEvent& event, PodRecord* record) {
  const kube::ContainerTermination& end = *event.pod.status.termination;
  record->ended = event.at - options_.started;
  record->exit_code = end.exit_code;
  record->was_asked = event.pod.is_deleting;
  record->reason = end.reason;
  record->lost_output_bytes = event.lost_output.bytes;
  const auto message = DecodeTerminationMessage(end.message);
  const ExitVerdict verdict = ClassifyExit(end.exit_code, end.signal, end.reason);
  has_unsaved_model_ = has_unsaved_model_ || verdict.cause == ExitCause::kNotSaved;
  record->left_no_word = !message.ok() && end.signal == 0;  // what a signal ended could not try
  record->message = Printable(message.ok() ? message->reason : LastLine(end.message));
  if (message.ok()) {
    NoteLastWords(record->name, *message);
  }
}

// Of several models the first: theirs are no parts of one history.
bool RunRecord::TellsHistory(const TaskId& task) const {
  const auto own = options_.models.find(task);
  return options_.models.empty() || (own != options_.models.end() && own->second.front() == 0);
}

void RunRecord::NoteLastWords(const std::string& pod, const TerminationMessage& message) {
  if (message.checkpoints) {
    checkpoints_.Report(pod, *message.checkpoints, message.last_checkpoint_step, true);
  }
  is_under_way_ = is_under_way_ || message.last_step.value_or(Step()) > Step() ||
                  (message.checkpoints && message.checkpoints->restored_step);
  const auto name = ParsePodName(pod);
  if (name && TellsHistory(name->task)) {
    history_.Add(message.history);
  }
  if (name && stopped_at_) {  // before, a successor may go on at an earlier step
    int64_t& highest = highest_[name->task];
    highest = std::max(highest, message.last_step.value_or(Step()).value());
  }
  models_.NoteLastWords(pod, message);
  final_samples_ = message.samples ? message.samples : final_samples_;
  final_result_ = message.result ? message.result : final_result_;
  final_loss_ = message.training_loss ? message.training_loss : final_loss_;
  if (message.last_step >= final_step_ && message.steps_skipped) {
    final_steps_skipped_ = message.steps_skipped;
  }
  if (message.last_step) {
    final_step_ = std::max(final_step_.value_or(Step()), *message.last_step);
  }
  final_data_epoch_ = std::max(final_data_epoch_, message.data_epoch.value_or(0));
  if (message.steps_total) {
    final_steps_total_ = message.steps_total;
  }
  if (message.last_checkpoint_step) {
    last_checkpoint_step_ =
        std::max(last_checkpoint_step_.value_or(Step()), *message.last_checkpoint_step);
  }
}

void RunRecord::OnGivenUp(const kube::Pod& pod, const std::string& cause, TimePoint now) {
  if (const auto name = ParsePodName(pod.name)) {
    // One that hangs has done nothing since it was heard last.
    lost_[name->task] = {name->task, pod.name, cause, now, Find(last_heard_, pod.name)};
  }
}

void RunRecord::OnStop(bool is_restarting, TimePoint now) {
  stopped_at_ = now;
  checkpoints_.NoteEnd();
  if (!is_restarting) {
    return;
  }
  for (const auto& [task, loss] : std::exchange(lost_, {})) {
    recoveries_.PodLost(loss);
  }
  recoveries_.SettleHeld();
}

void RunRecord::OnReport(const StatusArrival& arrival) {
  const StatusDocument& document = arrival.document;
  recoveries_.Report(document);
  recoveries_.NotePrograms(document, arrival.received);
  checkpoints_.Report(document.pod, document.checkpoints, document.last_checkpoint_step);
  models_.Report(document);
  if (TellsHistory(document.task)) {
    history_.Add(document.history);
  }
  last_heard_[document.pod] = arrival.received;
  is_under_way_ = is_under_way_ || document.step > Step() || document.checkpoints.restored_step;
  if (!options_.batch_size && document.phase == Phase::kStopping) {
    failing_.try_emplace(document.pod, arrival.received);
  }
  const bool is_of_all_models = document.result && !document.result->models.empty();
  const StepSeen seen{
      document.step.value(), arrival.received, is_of_all_models ? 0 : document.samples.consumed};
  if (seen.step > 0 && (!last_seen_ || seen.step > last_seen_->step)) {
    last_seen_ = seen;
    first_seen_ = first_seen_.value_or(seen);
  }
  NotePace(document.task, seen);
  reports_[document.task] = document;
}

void RunRecord::NotePace(const TaskId& task, const StepSeen& seen) {
  if (seen.step <= 0) {
    return;  // a successor before it holds the state
  }
  int64_t& highest = highest_[task];
  if (seen.step < highest) {
    NoteFallBack(seen.step);
    pace_from_.reset();  // back to a checkpoint
    pace_to_.reset();
    highest_.clear();
  }
  highest_[task] = seen.step;
  if (!pace_to_ || seen.step > pace_to_->step) {
    pace_to_ = seen;
    pace_from_ = pace_from_.value_or(seen);
  }
}

// Of a training the operator says so. A program may count its steps anew as it likes, and a
// survivor may lack one of those that a lost rank had done.
void RunRecord::NoteFallBack(int64_t step) {
  const std::size_t losses = recoveries_.all().size();
  const int64_t reached = Reached();
  if (options_.batch_size || losses == losses_before_fall_ || step + 1 >= reached) {
    return;
  }
  losses_before_fall_ = losses;
  falls_.push_back({true,
                    "after a rank was lost, the program continues at step " + std::to_string(step) +
                        "; it had reached step " + std::to_string(reached) +
                        ": the unsaved steps are lost"});
}

std::vector<CheckpointRemark> RunRecord::TakeRemarks() {
  std::vector<CheckpointRemark> remarks = checkpoints_.TakeRemarks();
  remarks.insert(remarks.end(), falls_.begin(), falls_.end());
  falls_.clear();
  return remarks;
}

// Used between the first and the newest step that were reported. A data epoch's last batch may be
// far smaller than the others, so steps are only counted where nobody tells.
double RunRecord::SamplesSeen() const {
  const int64_t used = last_seen_->samples - first_seen_->samples;
  return static_cast<double>(first_seen_->samples > 0 && used > 0
                                 ? used * ModelCount(options_.models)
                                 : (last_seen_->step - first_seen_->step) *
                                       options_.batch_size.value_or(0));
}

const StatusDocument* RunRecord::Leading() const {
  const StatusDocument* leading = nullptr;
  for (const auto& [task, document] : reports_) {
    // A finished rank knows the result, too; that makes it the better source at equal step.
    const bool is_better = leading == nullptr || document.step > leading->step ||
                           (document.step == leading->step && document.result && !leading->result);
    if (IsRank(task.role) && is_better) {
      leading = &document;
    }
  }
  return leading;
}

ChaosView RunRecord::ViewForChaos(std::size_t gang_size, TimePoint now) {
  if (!all_running_since_ && running_.size() == gang_size) {
    all_running_since_ = now;
  }
  ChaosView view;
  if (const StatusDocument* leading = Leading()) {
    view.step = leading->step.value();
  }
  if (all_running_since_) {
    view.running = now - *all_running_since_;
  }
  for (const auto& [task, pod] : running_) {
    view.running_tasks.insert(task);
    const auto report = reports_.find(task);
    if (report != reports_.end() && report->second.pod == pod) {
      view.phases[task] = report->second.phase;
    }
  }
  return view;
}

std::string RunRecord::RunningPodOf(const TaskId& task) const {
  const auto running = running_.find(task);
  return running == running_.end() ? "" : running->second;
}

TrainedSteps RunRecord::Trained() const {
  TrainedSteps trained;
  if (options_.batch_size && options_.models.empty()) {
    trained[std::nullopt] = Step(Reached());
  }
  for (const ModelRecord& model : models_.Sum().by_rank) {
    trained[model.rank] = model.step.value_or(Step());
  }
  return trained;
}

int64_t RunRecord::Reached() const {
  int64_t reached = 0;
  for (const auto& [task, highest] : highest_) {
    reached = std::max(reached, highest);
  }
  return reached;
}

std::vector<std::string> RunRecord::Succeeded() const {
  std::vector<std::string> names;
  for (const PodRecord& pod : pods_) {
    if (pod.exit_code == kExitSuccess) {
      names.push_back(pod.name);
    }
  }
  return names;
}

void RunRecord::FillProgress(Progress* progress) const {
  progress->pods_running = static_cast<int64_t>(running_.size());
  const StatusDocument* leading = Leading();
  if (leading == nullptr) {
    return;
  }
  progress->step = leading->step.value();
  progress->steps_total = leading->steps_total.value_or(0);
  progress->has_loss = leading->loss.has_value();
  progress->loss = leading->loss.value_or(0);
  // Of a step that this process took: one that resumes stands at a step without a loss.
  progress->has_diverged =
      options_.batch_size && !leading->loss && leading->step_phase_seconds.compute > 0;
  progress->samples_per_second = leading->samples_per_second;
  progress->eta_seconds = leading->eta_seconds.value_or(0);
  if (pace_from_ && options_.batch_size) {
    progress->steps_done = pace_to_->step - pace_from_->step;
    progress->elapsed = pace_to_->at - pace_from_->at;
  }
}

void RunRecord::FillSummary(TimePoint now, RunSummary* summary) const {
  summary->is_training = options_.batch_size.has_value();
  summary->recoveries = recoveries_.all();
  summary->time_lost = recoveries_.TimeLost(std::min(now, stopped_at_.value_or(now)));
  summary->pods = pods_;
  summary->elapsed = now - options_.started;
  summary->run_directory = options_.run_directory;
  summary->last_checkpoint_step = last_checkpoint_step_;
  summary->checkpoints = checkpoints_.Tally();
  summary->history = history_.All();
  options_.models.empty() ? FillOneModel(summary) : FillModels(summary);
  if (options_.batch_size) {
    summary->samples_per_second = Pace(summary->history);
  }
}

// The figures of each, and what they come to together: none is of several models' at once.
void RunRecord::FillModels(RunSummary* summary) const {
  ModelsOfRun all = models_.Sum();
  summary->loss = all.training_loss;
  summary->test_loss = all.test_loss;
  summary->test_accuracy = all.test_accuracy;
  summary->samples = all.samples;
  summary->models_uncounted = all.uncounted;
  summary->has_final_samples = all.has_final_samples;
  if (const ModelRecord* const furthest = Furthest(all.by_rank)) {
    summary->steps = furthest->step->value();
    summary->steps_total = furthest->steps_total;
    summary->steps_skipped = furthest->steps_skipped;
    summary->data_epoch = furthest->data_epoch;
  }
  summary->models = std::move(all.by_rank);
}

void RunRecord::FillOneModel(RunSummary* summary) const {
  if (const StatusDocument* leading = Leading()) {
    summary->steps = leading->step.value();
    summary->steps_total = leading->steps_total;
    summary->steps_skipped = leading->steps_skipped;
    summary->data_epoch = leading->data_epoch;
    summary->loss = leading->loss;
    summary->samples_per_second = leading->samples_per_second;
    if (leading->samples.consumed > 0) {
      summary->samples = leading->samples;
      summary->has_final_samples = false;
    }
    if (leading->result) {
      summary->test_loss = leading->result->test_loss;
      summary->test_accuracy = leading->result->test_accuracy;
    }
    summary->last_checkpoint_step = std::max(last_checkpoint_step_, leading->last_checkpoint_step);
  }
  if (final_result_) {
    summary->test_loss = final_result_->test_loss;
    summary->test_accuracy = final_result_->test_accuracy;
  }
  if (final_loss_) {  // of the last step; a report is of the step that the last poll met
    summary->loss = final_loss_;
  }
  if (LossIsNotFinite(*summary)) {
    summary->loss.reset();  // the report that was met may be of a step before
  }
  if (final_samples_) {
    summary->samples = final_samples_;
    summary->has_final_samples = true;
  }
  if (final_steps_total_) {  // of a run of a moment no report was met
    summary->steps_total = final_steps_total_;
  }
  summary->steps_skipped = final_steps_skipped_.value_or(summary->steps_skipped);
  summary->steps = std::max({summary->steps, final_step_.value_or(Step()).value(), Reached()});
  summary->data_epoch = std::max(summary->data_epoch, final_data_epoch_);
}

// By the reports; where those are too close together, by what the processes timed themselves.
double RunRecord::Pace(const std::vector<DataEpochResult>& history) const {
  if (first_seen_ && last_seen_->at - first_seen_->at >= kPaceSpanMin) {
    return SamplesSeen() / ToSeconds(last_seen_->at - first_seen_->at);
  }
  double samples = 0;
  double seconds = 0;
  for (const DataEpochResult& result : history) {
    samples += static_cast<double>(result.timed_sample_count.value_or(result.sample_count));
    seconds += result.seconds;
  }
  return seconds > 0 ? samples * static_cast<double>(ModelCount(options_.models)) / seconds : 0;
}

}  // namespace lockstep::control
