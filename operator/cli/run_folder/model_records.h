#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/strong_id.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/model_status.h"
#include "common/contract/status/status_document.h"
#include "common/contract/status/termination_message.h"
#include "operator/cli/run_folder/checkpoint_watch.h"

namespace lockstep::control {

// What is known of one model of several: its own figures, and never another's.
struct ModelRecord {
  int64_t rank = 0;
  std::optional<Step> step;             // the newest that was told; absent: none ever was
  std::optional<int64_t> steps_total;   // of this model
  int64_t steps_skipped = 0;            // of `step`, where it was the furthest when that was told
  int64_t data_epoch = 0;               // likewise
  std::optional<Step> first_step;       // that it began this run with
  std::optional<SampleCounts> samples;  // up to the last step, or a second before
  // What its process came to; a training loss that is absent there is not a finite number. Absent:
  // it took no step, or nobody knows, as of a process that was killed.
  std::optional<ModelResult> result;

  friend bool operator==(const ModelRecord&, const ModelRecord&) = default;
};

// Whether the model is trained to its end, or further.
bool IsTrained(const ModelRecord& model);

// What all models of a run come to. Means are absent unless they are over all of them.
struct ModelsOfRun {
  std::vector<ModelRecord> by_rank;
  std::optional<double> training_loss;
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;
  std::optional<SampleCounts> samples;  // the sum over those that told theirs
  int64_t uncounted = 0;                // that did not
  bool has_final_samples = false;       // all of them as of their last step
};

// The model that is furthest, of several the one with more before it; null: none told of a step.
const ModelRecord* Furthest(const std::vector<ModelRecord>& models);

// Whether all stand at one step of equally many; those that are not known do not.
bool AreEquallyFar(const std::vector<ModelRecord>& models);

// Keeps a record of each model by what its pods tell, in their reports and with their last words:
// of a model the newest process that held its state is right. Thread: one.
class ModelRecords {
 public:
  explicit ModelRecords(ModelsOfPods models);

  void Report(const StatusDocument& document);

  void NoteLastWords(const std::string& pod, const TerminationMessage& words);

  ModelsOfRun Sum() const;

 private:
  struct Known {
    ModelRecord record;
    std::optional<PodNumber> told_by;  // the pod that told of it last
    bool has_last_words = false;       // of that pod
  };

  // What all models came to, as each process tells that has met the others at the end.
  struct Together {
    TestResult result;
    std::optional<double> training_loss;
    std::optional<SampleCounts> samples;
  };

  Known* KnownOf(int64_t rank, const PodNumber& number);

  ModelsOfPods pods_;
  std::map<int64_t, Known> by_rank_;
  std::optional<Together> together_;
};

}  // namespace lockstep::control
