#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/data/batch_loader.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/strategy/multi_worker_mirrored.h"
#include "trainer-runtime/telemetry/metrics.h"
#include "trainer-runtime/train/training_state.h"

namespace lockstep::runtime {

enum class TrainerPhase {
  kRestoring,
  kTraining,
  kCheckpointing,
  kEvaluating,
  kConcluded  // every rank is done: those that leave from now on are not lost
};

// One completed step, as all ranks see it.
struct StepReport {
  Step step;               // updates applied, this one included
  int64_t data_epoch = 0;  // that the step's samples belong to
  double loss = 0;         // mean over the step's global batch, before the update
  double epoch_loss = 0;   // mean over the data epoch so far
  double epoch_accuracy = 0;
  int64_t sample_count = 0;  // of the global batch
  StepDurations durations;   // of this rank
};

struct EvaluationResult {
  double loss = 0;
  double accuracy = 0;
};

// What a trainer tells while it runs. Called on the training thread; any may be empty.
struct TrainerHooks {
  std::function<void(TrainerPhase)> on_phase;
  std::function<void()> on_state_ready;
  std::function<void(const StepReport&)> on_step;
  std::function<void(const SaveOutcome&)> on_checkpoint;
};

// All members outlive the trainer.
struct TrainerParts {
  Engine* engine = nullptr;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;           // empty set: no evaluation at the end
  CheckpointStore* checkpoints = nullptr;  // null: none are written or read
  Logger* logger = nullptr;
};

enum class TrainerVerdict {
  kFinished,  // all steps done, evaluated, saved, and every rank knows
  kStopped,   // every rank was asked to stop: state saved, all stop here
  kLeft       // this rank alone was asked to stop: the others go on without it
};

// Trains one job on one rank, meeting after meeting. Keeps its state between meetings, so that a
// survivor goes on where it stood. Thread: one, but RequestStop from any.
class Trainer {
 public:
  // Errors: kInvalidArgument when data set and model do not fit, or no step is possible.
  static Result<Trainer> Make(const TrainingSpec& spec, TrainerParts parts, TrainerHooks hooks);

  bool has_state() const { return state_.is_established; }

  Step last_applied() const { return state_.step; }

  int64_t step_count_total() const { return step_count_total_; }

  // The test split's result, once evaluated; empty before, or when the job has no test split.
  const std::optional<EvaluationResult>& test_result() const { return test_result_; }

  // Samples used, lost and repeated, as though training ended now.
  SampleTotals SampleTotalsNow();

  // Trains with the ranks of one meeting until the end, a stop or an error. The first thing that
  // happens is that all take one state: that of rank `state_source`; empty: nobody holds one. Every
  // rank calls this.
  // Errors: those of Communicator. After kPeerLost, kAborted and kTimeout the state is whole and
  // RunMeeting may be called again with a new meeting; after others it must not.
  Result<TrainerVerdict> RunMeeting(std::optional<int> state_source,
                                    MultiWorkerMirrored* strategy,
                                    const std::atomic<bool>& stop_requested);

  // Writes what this rank holds as a checkpoint and waits for it; nothing without state or store.
  // The store must have been claimed.
  Status SaveNow(int world_size, Deadline deadline);

 private:
  Trainer(const TrainingSpec& spec, TrainerParts parts, TrainerHooks hooks);

  Status EstablishState(std::optional<int> state_source, MultiWorkerMirrored* strategy);
  Status RestoreFromCheckpoint();
  Status AdoptState(const std::string& mine, const std::string& shared, int source, int rank);
  Result<StepTotals> RunStep(MultiWorkerMirrored* strategy, bool is_stop_requested);
  Status ApplyStep(const StepTotals& totals);
  void ReportStep(const StepTotals& totals, int64_t data_epoch, const StepDurations& durations);
  void SaveIfDue(MultiWorkerMirrored* strategy);
  void ReportCheckpoints();
  Status Evaluate(MultiWorkerMirrored* strategy);
  Status Conclude(MultiWorkerMirrored* strategy);
  Deadline CollectiveDeadline() const;
  void EnterPhase(TrainerPhase phase);

  TrainingSpec spec_;
  TrainerParts parts_;
  TrainerHooks hooks_;
  BatchLoader loader_;
  TrainingState state_;
  int64_t step_count_total_ = 0;
  std::optional<EvaluationResult> test_result_;

  // Running sums of the data epoch that the last step belonged to, for reports only.
  int64_t epoch_of_sums_ = 0;
  double epoch_loss_sum_ = 0;
  int64_t epoch_correct_count_ = 0;
  int64_t epoch_sample_count_ = 0;
};

}  // namespace lockstep::runtime
