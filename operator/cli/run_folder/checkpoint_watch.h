#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/strong_id.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/checkpoint_status.h"
#include "operator/cli/run_folder/checkpoint_folder.h"

namespace lockstep::control {

// One line on what a run has kept, for people.
struct CheckpointRemark {
  bool is_warning = false;
  std::string text;

  friend bool operator==(const CheckpointRemark&, const CheckpointRemark&) = default;
};

// What became of a run's checkpoints, over all processes that wrote any.
struct CheckpointTally {
  int64_t failed = 0;
  int64_t skipped = 0;
  std::string last_error;      // of the newest that failed; empty when one came after it
  std::string last_error_pod;  // that tried; empty with last_error
  bool is_unreadable = false;  // the folder cannot be read at the end; last_error says why
  // Where the run began, of several models the one that is the least far; null: at the beginning.
  std::optional<Step> restored_step;
};

// The ranks of each pod that trains models of its own, one for each; empty: the job has one model.
using ModelsOfPods = std::map<TaskId, std::vector<int64_t>>;

// How many models the job trains.
int64_t ModelCount(const ModelsOfPods& models);

// Follows the checkpoints by the reports of the processes that write them, and says each thing
// once: a disk that stays full is one line and not a hundred. Pure bookkeeping. Thread: one.
class CheckpointWatch {
 public:
  // `newest`: of each model the newest checkpoint that lay there before, where one did.
  explicit CheckpointWatch(const std::vector<FoundCheckpoint>& newest = {},
                           ModelsOfPods models = {});

  // What a pod tells: in its reports, and with its last words. `newest`: the step of the newest
  // that it wrote. After last words its training does not go on.
  void Report(const std::string& pod,
              const CheckpointStatus& now,
              std::optional<Step> newest,
              bool are_last_words = false);

  // The job has ended, or is being stopped: whatever a pod tells from now on, nothing goes on.
  void NoteEnd() { is_over_ = true; }

  // What there is to say since the last call.
  std::vector<CheckpointRemark> TakeRemarks();

  CheckpointTally Tally() const;

 private:
  // The rank of a model; null where there is one for all ranks.
  using Model = std::optional<int64_t>;

  std::vector<Model> ModelsOf(const std::string& pod) const;
  void NoteNewest(const std::string& pod, Step step);
  void TellBeginners();
  void NoteRestored(const std::string& pod, Step step);
  void TellRestored(const std::string& pod, Step step);

  std::map<std::string, CheckpointStatus> newest_;  // by pod
  ModelsOfPods models_;
  std::map<Model, Step> begun_with_;      // the newest that lay there before
  std::map<Model, Step> newest_steps_;    // of all that lay there or were written, where known
  std::map<Model, Step> first_restored_;  // of a pod with several models by its first one
  std::string last_error_;                // of the newest that failed; empty when one came after it
  std::string last_error_pod_;
  bool has_told_beginners_ = false;
  bool has_told_skip_ = false;
  bool is_over_ = false;
  std::vector<CheckpointRemark> remarks_;
};

}  // namespace lockstep::control
