#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "trainer-runtime/checkpoint/model_folders.h"
#include "trainer-runtime/cmd/shortage.h"
#include "trainer-runtime/cmd/training_process.h"

// How a training process comes to its trainer: engine, data and checkpoints.

namespace lockstep::runtime {

// Loads on a thread of its own, beside the rendezvous. It owns all that it uses and nobody waits
// for it: a stop is heard while a disk does not answer. What it finds wrong ends the wait for the
// others, so that this rank's own reason is what is reported.
void TrainingProcess::StartLoading() {
  std::packaged_task<Result<TrainingParts>()> load(
      [spec = SpecOfRank(),
       environment = environment_,
       options = LoadingOptions{options_.engine_path, options_.nccl_may_block},
       give_up = give_up_] {
        Result<TrainingParts> parts =
            ReportShortage([&] { return LoadTrainingParts(spec, environment, options); });
        if (!parts.ok()) {
          std::stop_source(give_up).request_stop();
        }
        return parts;
      });
  loading_ = load.get_future();
  std::thread(std::move(load)).detach();
}

// Why loading failed; empty when it did not, is not known, or was told already.
std::optional<Error> TrainingProcess::LoadingFault() {
  const bool is_known =
      loading_.valid() && loading_.wait_for(Duration::zero()) == std::future_status::ready;
  const Result<TrainingParts> parts =
      is_known ? loading_.get() : Error(ErrorCode::kAborted, "loading has not finished");
  return is_known && !parts.ok() ? std::optional(AsOwnFault(parts.error())) : std::nullopt;
}

// Waits for engine and data, once, and makes the trainer from them.
Status TrainingProcess::FinishLoading() {
  constexpr Duration kLookAtStop = std::chrono::milliseconds(100);
  if (trainer_.has_value()) {
    return OkStatus();
  }
  while (loading_.wait_for(kLookAtStop) != std::future_status::ready) {
    if (options_.stop->requested().load()) {
      return Error(ErrorCode::kAborted, "loading was stopped on request");
    }
  }
  Result<TrainingParts> parts = loading_.get();
  if (!parts.ok()) {
    return AsOwnFault(parts.error());
  }
  parts_ = std::move(parts).value();
  session_->Lend(parts_->lent.get());
  if (parts_->not_lent.has_value()) {
    options_.logger->Warn(
        "gradients are not in shared memory, so they are copied before they are summed",
        {{"rank", rank()}, {"error", parts_->not_lent->ToString()}});
  }
  const Status made = MakeTrainer();
  return made.ok() ? OkStatus() : AsFolderFault(made.error());
}

Status TrainingProcess::MakeTrainer() {
  observer_->EngineReady(parts_->replicas->engine(0).Description(), parts_->replicas->count());
  if (!environment_.checkpoint_directory.empty()) {
    CheckpointStoreOptions store;
    const std::string& directory = environment_.checkpoint_directory;
    LOCKSTEP_RETURN_IF_ERROR(CheckDirectoryKind(directory, HasOwnModel()));
    store.directory = HasOwnModel() ? FolderOfModel(directory, rank()) : directory;
    store.writer = {
        environment_.job_uid, environment_.attempt, environment_.epoch, environment_.incarnation};
    store.keep_count = static_cast<int>(spec_.checkpoint.keep);
    store.other_job = OtherJobPolicy::kTakeOver;  // a job applied again resumes
    store.logger = options_.logger;
    store.clock = &clock_;
    LOCKSTEP_ASSIGN_OR_RETURN(checkpoints_, CheckpointStore::Open(std::move(store)));
  }
  const TrainerParts trainer_parts{parts_->strategy.get(),
                                   &parts_->data.train,
                                   &parts_->data.test,
                                   checkpoints_.get(),
                                   options_.logger};
  LOCKSTEP_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Make(SpecOfRank(), trainer_parts, Hooks()));
  trainer_.emplace(std::move(trainer));
  observer_->LengthKnown(trainer_->step_count_total());
  return OkStatus();
}

// The observer's, and once a second the samples: counting them looks at each of the data epoch.
TrainerHooks TrainingProcess::Hooks() {
  static constexpr Duration kCountInterval = std::chrono::seconds(1);
  TrainerHooks hooks = observer_->Hooks();
  hooks.on_step = [this, tell = std::move(hooks.on_step)](const StepReport& report) {
    session_->NoteAllHold();
    tell(report);
    if (const TimePoint now = SteadyNow(); now - samples_counted_at_ >= kCountInterval) {
      samples_counted_at_ = now;
      observer_->SamplesCounted(trainer_->SampleTotalsNow());
    }
  };
  return hooks;
}

}  // namespace lockstep::runtime
