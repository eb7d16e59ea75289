#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/training/training_result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/data/batch_loader.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/strategy/rank_control.h"
#include "trainer-runtime/strategy/strategy.h"
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
  Step step;               // steps taken, this one included
  int64_t data_epoch = 0;  // that the step's samples belong to
  // One worker's share of steps that others take as well: what a data epoch comes to is told by
  // DataEpochOf.
  bool is_share = false;
  double loss = 0;                       // mean over the step's global batch, before the update
  double epoch_loss = 0;                 // mean over the data epoch so far
  std::optional<double> epoch_accuracy;  // absent where hits have no meaning: MeanSquaredError
  int64_t epoch_sample_count = 0;        // of the data epoch, used so far, by whichever process
  // That loss and accuracy of the epoch are over: without those of skipped steps whose loss was not
  // finite either.
  int64_t epoch_loss_sample_count = 0;
  int64_t sample_count = 0;      // of the global batch
  int64_t samples_consumed = 0;  // by all steps up to this one
  bool is_skipped = false;       // the model is as it was: gradients too large for Float16
  int64_t steps_skipped = 0;     // so, of all up to this one
  double loss_scale = 1;         // of the next step
  StepDurations durations;       // of this rank
};

struct EvaluationResult {
  double loss = 0;
  std::optional<double> accuracy;  // absent where hits have no meaning: MeanSquaredError
};

// By all workers together, where each has shares of its own: at least so many.
struct UpdatesMade {
  int64_t count = 0;
  int64_t sample_count = 0;  // that they have used
};

// What a trainer tells while it runs. Called on the training thread; any may be empty.
struct TrainerHooks {
  std::function<void(TrainerPhase)> on_phase;
  // `data_epoch`: that of the next step, which is how many are complete.
  std::function<void(Step, int64_t data_epoch)> on_state_ready;
  std::function<void(int64_t)> on_steps_skipped;            // how many before, as on_state_ready
  std::function<void(int64_t step_count_total)> on_length;  // known once the state is
  std::function<void(Step)> on_restored;                    // from a checkpoint of that step
  std::function<void(const StepReport&)> on_step;
  std::function<void(const SaveOutcome&)> on_checkpoint;
};

// All members outlive the trainer.
struct TrainerParts {
  Strategy* strategy = nullptr;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;           // empty set: no evaluation at the end
  CheckpointStore* checkpoints = nullptr;  // null: none are written or read
  Logger* logger = nullptr;
};

// What one meeting lends to the trainer: gone when RunMeeting has returned.
struct MeetingParts {
  RankControl* control = nullptr;
  GradientReducer* reducer = nullptr;  // over the same ranks
};

enum class TrainerVerdict {
  kFinished,  // all steps done, evaluated, saved, and every rank knows
  kStopped,   // every rank was asked to stop: state saved, all stop here
  kLeft,      // this rank alone was asked to stop: the others go on without it
  // The ends that are failures; trouble() says more. Every rank comes to the same one.
  kStoppedUnsaved,  // as kStopped, but the checkpoint could not be written
  kNotSaved,        // trained and evaluated, but the last checkpoint could not be written
  kDiverged,        // loss, gradients or model are not finite; the step was not taken
  kInexact          // trained, evaluated and saved, but samples were lost or used twice
};

// Trains one job on one rank, meeting after meeting. Keeps its state between meetings, so that a
// survivor goes on where it stood. Thread: one, but RequestStop from any.
class Trainer {
 public:
  // Errors: kInvalidArgument when data set and model do not fit, or no step is possible.
  static Result<Trainer> Make(const TrainingSpec& spec, TrainerParts parts, TrainerHooks hooks);

  bool has_state() const { return state_.is_established; }

  Step last_applied() const { return state_.step; }

  // Steps of the whole job. By data epochs it follows from where the state stands: a job that goes
  // on with another batch size takes another number of steps to its end.
  int64_t step_count_total() const;

  // Where training ends: where it stands, when the job asks for less than that.
  int64_t last_step() const { return std::max(step_count_total(), state_.step.value()); }

  // Of the steps taken, those that changed nothing, as gradients were not finite in Float16.
  int64_t steps_skipped() const { return state_.steps_skipped(); }

  // Why the verdict is what it is; empty for kFinished, kStopped and kLeft.
  const std::string& trouble() const { return trouble_; }

  // The mean loss over the last step's data epoch, up to that step; empty before the first step.
  std::optional<double> training_loss() const;

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
                                    const MeetingParts& meeting,
                                    const std::atomic<bool>& stop_requested);

  // For ranks that take no step together, as their model is on parameter servers: each computes
  // shares of the work, a global batch each, and what the state is others say. Between TakeHead and
  // CountUpTo this rank has no state of its own. trainer_shares.cc.

  // Takes the newest checkpoint's state, or else the seed's, and asks nobody.
  Status TakeOwnState();

  // The state without its values, and back. `updates`: those that are made by now, skipped steps
  // left out; people are told that training stands there. Errors: kCorrupt, kInvalidArgument
  // (another job's).
  std::string TellHead(int world_size);
  Status TakeHead(const std::string& head, int64_t updates);

  // The values of the state in flat buffers, and back. Shapes: parameters [n]; slots [slots of
  // optimizer x n], slot after slot, or empty: they stay.
  std::vector<int64_t> VariableSizes();
  // Errors: those of Engine.
  Result<std::vector<float>> ReadValues(TensorKind kind);
  Status WriteValues(std::span<const float> parameters, std::span<const float> slots);

  // Where the data stand, and where they do `updates` later.
  const DataCursor& cursor() const { return state_.cursor; }

  DataCursor CursorAfter(DataCursor cursor, int64_t updates) const;

  // The gradient of the whole batch at `cursor` by this rank alone, the `update`-th of the job,
  // from 1, on the values that are there; ReadGradients() has it. `sums` are not finite where
  // trouble() says so. Errors: those of Strategy::Step.
  Result<StepOutcome> ComputeShare(const DataCursor& cursor,
                                   int64_t update,
                                   GradientReducer* alone);

  Result<std::span<const float>> ReadGradients() { return parts_.strategy->ReadGradients(); }

  // Reports the share at `cursor`, which is done, to on_step. `own`: all of this rank's in its data
  // epoch.
  void ReportShare(const UpdatesMade& made,
                   const DataCursor& cursor,
                   const EpochSums& own,
                   double loss);

  // What a data epoch has come to whose samples up to position `samples_end` are used, the last
  // ones by step `last_step`. `sums`: over all workers. Without the time that it took.
  DataEpochResult DataEpochOf(const EpochSums& sums, Step last_step, int64_t samples_end) const;

  // The values that are there have all updates up to `step`: counts their samples, each batch once.
  // `sums` are the data epoch's of the last one.
  Status CountUpTo(Step step, const EpochSums& sums);

  // Writes the state that CountUpTo has made, in the background. Errors: kAborted (not finite, see
  // trouble()), those of a directory that another job has taken over.
  Status SaveCounted(int world_size);

  // The samples were not used once each: the job's end, whatever else follows.
  void SayInexact(const std::string& what) { trouble_ = what; }

  // From here on the state counts as this rank's own, as for a meeting.
  void HoldState() { state_.is_established = true; }

  // The next update at which a checkpoint is due, or the last one.
  int64_t NextSave(int64_t after) const;

  const EpochSums& sums() const { return state_.sums; }

  // Writes what this rank holds as a checkpoint and waits for it; nothing without state or store.
  // The store must have been claimed. What fails is told by on_checkpoint, too.
  Status SaveNow(int world_size, Deadline deadline);

 private:
  // Taking a common state waits for the slowest rank, and a newcomer may still be loading its
  // engine from a cold disk. Choice.
  static constexpr Duration kStateTimeout = std::chrono::seconds(60);

  // Where a state comes from.
  struct StateWay {
    RankControl* control;
    int source;
    Deadline deadline;
  };

  Trainer(const TrainingSpec& spec, TrainerParts parts, TrainerHooks hooks);

  Status EstablishState(std::optional<int> state_source, RankControl* control);
  Status RestoreFromCheckpoint();
  Status TakeOver(const Snapshot& snapshot);
  Result<TrainingState> Examine(const Snapshot& snapshot, const std::vector<TensorView>& tensors);
  Status GoOnFrom(TrainingState restored);
  void PassUselessRemainder();
  Result<Snapshot> Snap(int world_size);
  Snapshot SnapHead(int world_size);
  Status AdoptState(const std::string& mine, const std::string& shared, const StateWay& way);
  Result<StepTotals> RunStep(const MeetingParts& meeting, bool is_stop_requested);
  Status ApplyStep(const StepTotals& totals, bool is_skipped, bool is_guarded);
  std::optional<GuardedUpdate> UpdateAhead(const RankControl& control) const;
  std::function<std::optional<Batch>(int replica)> BatchesAhead(const ReplicaRange& replicas);
  void LogNotices();
  Status ClipGradients();
  double LossScaleNow() const;
  void BeginLossScale();
  bool MaySkip();
  void MoveLossScale(bool is_skipped);
  void TellStateReady(Step step, int64_t data_epoch);
  void ReportStep(const StepTotals& totals,
                  const StepDurations& durations,
                  bool is_skipped,
                  int64_t epoch_sample_count);
  bool IsTrained() const;
  bool HasAccuracy() const;
  Result<bool> MayTake(const StepTotals& totals, bool is_skipped);
  Status CheckFinite(double loss_sum, int64_t update);
  Result<bool> IsStateFinite();
  bool IsSaveDue() const;
  Status ReportCheckpoints();
  void ReportCheckpoint(const SaveOutcome& outcome);
  Status SaveTogether(RankControl* control);
  Status Evaluate(RankControl* control);
  Result<TrainerVerdict> StopTogether(RankControl* control);
  Result<TrainerVerdict> GiveUp(RankControl* control);
  Result<TrainerVerdict> Conclude(RankControl* control);
  Deadline CollectiveDeadline() const;
  void EnterPhase(TrainerPhase phase);

  TrainingSpec spec_;
  TrainerParts parts_;
  TrainerHooks hooks_;
  BatchLoader loader_;
  TrainingState state_;
  bool is_mixture_ =
      false;  // the tensors are another rank's in part: nobody may train on from them
  std::string fingerprint_;
  std::string trouble_;
  bool has_told_of_skips_ = false;
  bool has_told_of_floor_ = false;
  std::optional<EvaluationResult> test_result_;
};

}  // namespace lockstep::runtime
