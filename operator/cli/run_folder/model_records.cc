#include "operator/cli/run_folder/model_records.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::control {
namespace {

bool IsOfAll(const std::optional<TestResult>& result) {
  return result && !result->models.empty();
}

std::optional<double> Mean(const std::vector<ModelRecord>& models,
                           std::optional<double> ModelResult::*number) {
  double sum = 0;
  for (const ModelRecord& model : models) {
    if (!model.result || !((*model.result).*number)) {
      return std::nullopt;
    }
    sum += *((*model.result).*number);
  }
  return models.empty() ? std::nullopt : std::optional(sum / static_cast<double>(models.size()));
}

}  // namespace

bool IsTrained(const ModelRecord& model) {
  return model.step && model.steps_total && model.step->value() >= *model.steps_total;
}

const ModelRecord* Furthest(const std::vector<ModelRecord>& models) {
  const auto furthest = std::ranges::max_element(models, {}, [](const ModelRecord& model) {
    return std::pair(model.step, model.steps_total);
  });
  return furthest == models.end() || !furthest->step ? nullptr : &*furthest;
}

bool AreEquallyFar(const std::vector<ModelRecord>& models) {
  return std::ranges::all_of(models, [&models](const ModelRecord& model) {
    return model.step == models.front().step && model.steps_total == models.front().steps_total;
  });
}

ModelRecords::ModelRecords(ModelsOfPods models) : pods_(std::move(models)) {
  for (const auto& [task, ranks] : pods_) {
    for (const int64_t rank : ranks) {
      by_rank_[rank].record.rank = rank;
    }
  }
}

// The record of a model that pod `number` tells of; null: a later one has told of it. What an
// earlier one came to is not what this one does.
ModelRecords::Known* ModelRecords::KnownOf(int64_t rank, const PodNumber& number) {
  const auto found = by_rank_.find(rank);
  if (found == by_rank_.end() || number < found->second.told_by) {
    return nullptr;
  }
  Known& known = found->second;
  if (number != known.told_by) {
    known.told_by = number;
    known.has_last_words = false;
    known.record.result.reset();
  }
  return &known;
}

void ModelRecords::Report(const StatusDocument& document) {
  const auto name = ParsePodName(document.pod);
  const auto pod = name ? pods_.find(name->task) : pods_.end();
  if (pod == pods_.end()) {
    return;
  }
  if (IsOfAll(document.result) && !together_) {
    together_ = Together{*document.result, std::nullopt, document.samples};
  }
  std::vector<ModelStatus> models = document.models;
  // Who waits for the others, or ends, stands at a step; a successor that has no state yet at none.
  if (pod->second.size() == 1 && HoldsModel(document)) {
    models = {ModelStatusOf(document)};
    models.front().rank = static_cast<int>(pod->second.front());
  }
  bool has_furthest = false;  // what else the document says is of that one
  for (const ModelStatus& told : models) {
    Known* const known = KnownOf(told.rank, name->number);
    if (known == nullptr || known->has_last_words) {
      continue;
    }
    ModelRecord& record = known->record;
    if (told.step != record.step) {
      record.samples.reset();  // they were up to another step
    }
    record.step = told.step;
    record.first_step = record.first_step.value_or(told.first_step);
    record.steps_total = told.steps_total ? told.steps_total : record.steps_total;
    if (told.step == document.step && !std::exchange(has_furthest, true)) {
      record.steps_skipped = document.steps_skipped;
      record.data_epoch = document.data_epoch;
      // Counted once a second: who has just taken up a state has counted none of it.
      const bool has_counted = document.samples.consumed > 0 && !IsOfAll(document.result);
      record.samples = has_counted ? std::optional(document.samples) : record.samples;
    }
  }
}

// A pod with several processes does not say which of them its last words are of: of the first where
// all has gone well, of who failed elsewhere.
void ModelRecords::NoteLastWords(const std::string& pod, const TerminationMessage& words) {
  const auto name = ParsePodName(pod);
  const auto found = name ? pods_.find(name->task) : pods_.end();
  if (found == pods_.end()) {
    return;
  }
  const bool is_of_all = IsOfAll(words.result);
  if (is_of_all) {
    together_ = Together{*words.result, words.training_loss, words.samples};
  }
  const bool holds_state = words.samples.has_value() || is_of_all;
  const bool are_of_first = found->second.size() == 1 || words.outcome == Outcome::kSuccess;
  Known* const known =
      holds_state && are_of_first ? KnownOf(found->second.front(), name->number) : nullptr;
  if (known == nullptr) {
    return;
  }
  known->has_last_words = true;
  ModelRecord& record = known->record;
  record.step = words.last_step.value_or(Step());
  record.steps_total = words.steps_total ? words.steps_total : record.steps_total;
  const auto restored = words.checkpoints ? words.checkpoints->restored_step : std::nullopt;
  record.first_step = record.first_step.value_or(restored.value_or(Step()));
  record.steps_skipped = words.steps_skipped.value_or(0);
  record.data_epoch = words.data_epoch.value_or(record.data_epoch);
  if (is_of_all) {
    return;  // the rest is the mean and the sum over all models
  }
  record.samples = words.samples;
  if (*record.step > Step()) {
    record.result = ModelResult{words.training_loss, {}, {}};
    if (words.result) {
      record.result->test_loss = words.result->test_loss;
      record.result->test_accuracy = words.result->test_accuracy;
    }
  }
}

ModelsOfRun ModelRecords::Sum() const {
  ModelsOfRun all;
  SampleCounts sum;
  all.has_final_samples = true;
  for (const auto& [rank, known] : by_rank_) {
    ModelRecord record = known.record;
    const auto index = static_cast<std::size_t>(rank);
    if (together_ && index < together_->result.models.size()) {
      record.result = together_->result.models[index];
      // They meet when all are trained: where it was heard of last is not where it stands.
      record.step = record.steps_total
                        ? std::max(record.step, std::optional(Step(*record.steps_total)))
                        : std::nullopt;
    }
    const SampleCounts counted = record.samples.value_or(SampleCounts());
    sum.consumed += counted.consumed;
    sum.expected += counted.expected;
    sum.lost += counted.lost;
    sum.repeated += counted.repeated;
    all.uncounted += record.samples ? 0 : 1;
    all.has_final_samples = all.has_final_samples && (known.has_last_words || !record.samples);
    all.by_rank.push_back(std::move(record));
  }
  if (all.uncounted < static_cast<int64_t>(by_rank_.size())) {
    all.samples = sum;
  }
  all.training_loss = Mean(all.by_rank, &ModelResult::training_loss);
  all.test_loss = Mean(all.by_rank, &ModelResult::test_loss);
  all.test_accuracy = Mean(all.by_rank, &ModelResult::test_accuracy);
  if (together_) {  // in all digits
    all.test_loss = together_->result.test_loss;
    all.test_accuracy = together_->result.test_accuracy;
    all.training_loss = together_->training_loss ? together_->training_loss : all.training_loss;
    all.samples = together_->samples ? together_->samples : all.samples;
    all.uncounted = together_->samples ? 0 : all.uncounted;
    all.has_final_samples = together_->samples.has_value() || all.has_final_samples;
  }
  return all;
}

}  // namespace lockstep::control
