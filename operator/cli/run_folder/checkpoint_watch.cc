#include "operator/cli/run_folder/checkpoint_watch.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace lockstep::control {

int64_t ModelCount(const ModelsOfPods& models) {
  int64_t count = models.empty() ? 1 : 0;
  for (const auto& [task, ranks] : models) {
    count += static_cast<int64_t>(ranks.size());
  }
  return count;
}

CheckpointWatch::CheckpointWatch(const std::vector<FoundCheckpoint>& newest, ModelsOfPods models)
    : models_(std::move(models)) {
  for (const FoundCheckpoint& checkpoint : newest) {
    begun_with_[checkpoint.rank] = checkpoint.step;
  }
  newest_steps_ = begun_with_;
}

void CheckpointWatch::Report(const std::string& pod,
                             const CheckpointStatus& now,
                             std::optional<Step> newest,
                             bool are_last_words) {
  const CheckpointStatus before = newest_[pod];
  if (now.written + now.failed + now.skipped < before.written + before.failed + before.skipped) {
    return;  // a report that comes after the last words
  }
  newest_[pod] = now;
  const bool goes_on = !are_last_words && !is_over_;
  if (now.restored_step && !before.restored_step) {
    NoteRestored(pod, *now.restored_step);
    TellBeginners();
    TellRestored(pod, *now.restored_step);
  }
  if (newest) {
    NoteNewest(pod, *newest);
  }
  if (now.failed > before.failed) {
    // Each failure names another file: what is told once is that they fail.
    if (last_error_.empty()) {
      const std::string and_then = goes_on ? ", training continues" : "";
      remarks_.push_back({true, "checkpoint not written" + and_then + ": " + now.last_error});
    }
    last_error_ = now.last_error;
    last_error_pod_ = pod;
  }
  if (now.written > before.written && now.last_error.empty() && !last_error_.empty()) {
    last_error_.clear();
    last_error_pod_.clear();
    remarks_.push_back(
        {false,
         "checkpoints are written again" +
             (newest ? ", the newest at step " + std::to_string(newest->value()) : "")});
  }
  if (now.skipped > before.skipped && !has_told_skip_) {
    has_told_skip_ = true;
    remarks_.push_back({false,
                        "checkpoint skipped: an earlier one was still being written; use a larger "
                        "checkpoint.everySteps"});
  }
}

std::vector<CheckpointWatch::Model> CheckpointWatch::ModelsOf(const std::string& pod) const {
  const auto name = ParsePodName(pod);
  const auto found = name ? models_.find(name->task) : models_.end();
  return found == models_.end() ? std::vector<Model>{std::nullopt}
                                : std::vector<Model>(found->second.begin(), found->second.end());
}

void CheckpointWatch::NoteNewest(const std::string& pod, Step step) {
  const std::vector<Model> models = ModelsOf(pod);
  for (const Model& model : models) {
    if (models.size() > 1) {
      newest_steps_.erase(model);  // the pod does not say which of its models this is
    } else {
      Step& known = newest_steps_.try_emplace(model, step).first->second;
      known = std::max(known, step);
    }
  }
}

// Beside models that go on with what lay there before, those of which nothing did.
void CheckpointWatch::TellBeginners() {
  if (models_.empty() || begun_with_.empty() || std::exchange(has_told_beginners_, true)) {
    return;
  }
  std::set<int64_t> beginners;
  for (const auto& [task, ranks] : models_) {
    beginners.insert(ranks.begin(), ranks.end());
  }
  for (const auto& [model, step] : begun_with_) {
    beginners.erase(model.value_or(-1));
  }
  std::string names;
  for (auto rank = beginners.begin(); rank != beginners.end(); ++rank) {
    names += (rank == beginners.begin()            ? ""
              : std::next(rank) == beginners.end() ? " and "
                                                   : ", ") +
             std::to_string(*rank);
  }
  if (!beginners.empty()) {
    const bool is_one = beginners.size() == 1;
    remarks_.push_back({true,
                        (is_one ? "model " : "models ") + names +
                            (is_one ? " starts at step 0, because it has no checkpoint"
                                    : " start at step 0, because they have no checkpoint")});
  }
}

// One that the run wrote itself, for a gang that starts anew, is not what it began with.
void CheckpointWatch::NoteRestored(const std::string& pod, Step step) {
  const std::vector<Model> models = ModelsOf(pod);
  const bool is_of_before = std::ranges::any_of(models, [&](const Model& model) {
    const auto found = begun_with_.find(model);
    return found != begun_with_.end() && step <= found->second;
  });
  if (is_of_before) {
    first_restored_.try_emplace(models.front(), step);
  }
}

// Of a pod with several models the first word is of one of them, and nobody says of which: where it
// is the newest of none, there is one that could not be used. The words are true of one that trains
// and of one that has ended since: a short run may be over before anybody has asked it.
void CheckpointWatch::TellRestored(const std::string& pod, Step step) {
  const std::vector<Model> models = ModelsOf(pod);
  std::optional<Step> newer;
  for (const Model& model : models) {
    const auto known = newest_steps_.find(model);
    if (known == newest_steps_.end() || known->second == step) {
      newer.reset();
      break;
    }
    newer = known->second > step ? known->second : newer;
  }
  const auto name = ParsePodName(pod);
  const std::string task = name ? TaskName(name->task) : pod;
  const std::string who = models.size() > 1 ? "a model of " + task
                          : models.front()  ? "model " + std::to_string(*models.front())
                                            : "training";
  std::string text = who + " resumed from the checkpoint of step " + std::to_string(step.value());
  if (newer) {
    text += models.size() > 1 ? ": its newest checkpoint"
                              : ": the checkpoint of step " + std::to_string(newer->value());
    text += " cannot be used; the log of " + task + " says why";
  }
  remarks_.push_back({newer.has_value(), std::move(text)});
}

std::vector<CheckpointRemark> CheckpointWatch::TakeRemarks() {
  return std::exchange(remarks_, {});
}

CheckpointTally CheckpointWatch::Tally() const {
  CheckpointTally tally;
  for (const auto& [pod, status] : newest_) {
    tally.failed += status.failed;
    tally.skipped += status.skipped;
  }
  tally.last_error = last_error_;
  tally.last_error_pod = last_error_pod_;
  // A model without a checkpoint begins at the beginning, and so does the run.
  if (first_restored_.size() == std::max<std::size_t>(models_.size(), 1)) {
    const auto lowest = std::ranges::min_element(
        first_restored_, {}, [](const auto& restored) { return restored.second; });
    tally.restored_step = lowest->second;
  }
  return tally;
}

}  // namespace lockstep::control
