#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/environment.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/termination_message.h"
#include "common/contract/training/state_fingerprint.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/cmd/train_command.h"
#include "trainer-runtime/cmd/training_observer.h"
#include "trainer-runtime/cmd/training_parts.h"
#include "trainer-runtime/collectives/nccl/nccl_reducer.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"
#include "trainer-runtime/session/session.h"
#include "trainer-runtime/train/ending.h"
#include "trainer-runtime/train/own_models.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {

// Leaves a process's last words where its pod, or whoever supervises it, finds them.
void TellEnd(const WorkerEnvironment& environment,
             const TrainCommandOptions& options,
             const TerminationMessage& message);

// One process's part in one job, from the first meeting to the exit code.
class TrainingProcess {
 public:
  TrainingProcess(WorkerEnvironment environment, TrainingSpec spec, TrainCommandOptions options)
      : environment_(std::move(environment)),
        spec_(std::move(spec)),
        options_(std::move(options)) {}

  // Returns the process's exit code. Thread: the main thread; once.
  int Run();

 private:
  Result<TrainerVerdict> Train();
  Result<TrainerVerdict> TrainTogether();
  Result<TrainerVerdict> TrainOwnModel();
  Result<TrainerVerdict> TrainOverPs();
  Error AwaitEndOfAttempt(const Error& lost) const;
  Status StartService();
  void SaveBeforeLeaving();
  Status StartSession();
  void EndSession();
  void StartLoading();
  std::optional<Error> LoadingFault();
  Status FinishLoading();
  Status MakeTrainer();
  TrainerHooks Hooks();
  Result<std::unique_ptr<GradientReducer>> MakeReducer(const JoinedMeeting& meeting);
  std::unique_ptr<GradientReducer> MakeCpuReducer(const JoinedMeeting& meeting);
  Result<std::unique_ptr<GradientReducer>> TryNccl(const NcclReducerOptions& options,
                                                   const JoinedMeeting& meeting,
                                                   Deadline deadline);
  void LookAtNetwork();
  Result<TrainerVerdict> TrainInMeeting(const JoinedMeeting& meeting);
  Ending Conclude(const Result<TrainerVerdict>& verdict);
  void TellEnding(const Ending& ending);
  StopFacts FactsAtStop() const;
  Ending LeaveBrokenGang();
  Status SaveForBrokenGang();
  Status ClaimCheckpoints(Epoch epoch, Incarnation chief);
  uint64_t PlanHash() const;
  void OnControl(const ControlMessage& message);

  // False for a replacement that came when the others had finished.
  bool HasTrainedToTheEnd() const {
    return trainer_.has_value() && trainer_->last_applied().value() >= trainer_->step_count_total();
  }

  bool HasOwnModel() const { return spec_.variables == VariablePlacement::kIndependent; }

  bool HasModelOnPs() const { return spec_.variables == VariablePlacement::kParameterServers; }

  TrainingSpec SpecOfRank() const { return HasOwnModel() ? SpecOfModel(spec_, rank()) : spec_; }

  int rank() const { return environment_.rank.value_or(0); }

  WorkerEnvironment environment_;
  TrainingSpec spec_;
  TrainCommandOptions options_;
  SystemClock clock_;
  std::unique_ptr<RuntimeService> service_;
  std::unique_ptr<TrainingObserver> observer_;
  std::mutex session_mutex_;          // the server's thread asks for the session before it exists
  std::unique_ptr<Session> session_;  // guarded by session_mutex_ while it is being made
  std::stop_source give_up_;  // waiting for the others: asked to stop, or nothing to train with
  std::future<Result<TrainingParts>> loading_;
  std::optional<TrainingParts> parts_;
  std::optional<NcclObstacle> missed_nccl_;  // in the way of the newest meeting's, and told
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::optional<Trainer> trainer_;
  TimePoint samples_counted_at_;
  std::optional<int> culprit_rank_;  // of the newest loss
  // Of a rank that trains a model of its own: whether it is on disk, and what all have come to.
  bool has_saved_own_model_ = false;
  std::optional<ModelsTogether> models_;
};

}  // namespace lockstep::runtime
