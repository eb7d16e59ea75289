#include "trainer-runtime/cmd/train_command.h"

#include <algorithm>
#include <csignal>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/contract/exit_code.h"
#include "common/contract/termination_message.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/cmd/abort_switch.h"
#include "trainer-runtime/cmd/pod_devices.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/cmd/training_observer.h"
#include "trainer-runtime/cmd/training_parts.h"
#include "trainer-runtime/rendezvous/mesh.h"
#include "trainer-runtime/strategy/multi_worker_mirrored.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {
namespace {

// Meetings in a row that led to no step before this process gives up: the operator's budget ends a
// job much earlier, so this only bounds a loop that nobody watches. Choice.
constexpr int kFruitlessMeetingsMax = 20;

// A silent peer has missed at least so many heartbeats, however short a silence is asked for: one
// or two may be late on a busy host. Choice.
constexpr int kHeartbeatsMissed = 6;

// One process's part in one job, from the first meeting to the exit code.
class TrainingProcess {
 public:
  TrainingProcess(WorkerEnvironment environment, TrainingSpec spec, TrainCommandOptions options)
      : environment_(std::move(environment)),
        spec_(std::move(spec)),
        options_(std::move(options)) {}

  int Run();

 private:
  struct Ending {
    int exit_code = kExitSuccess;
    std::string reason;
  };

  Result<TrainerVerdict> Train();
  Status StartService();
  Status StartMesh();
  void LeaveMesh();
  Status FinishLoading();
  Result<TrainerVerdict> MeetAndTrain(const Meeting& meeting, Communicator* communicator);
  Result<std::unique_ptr<Communicator>> Connect(Meeting* meeting);
  bool MayMeetAgain(const Error& error);
  Ending Conclude(Result<TrainerVerdict> verdict);
  Ending ConcludeError(const Error& error);
  uint64_t PlanHash() const;
  void OnControl(const ControlMessage& message);

  int rank() const { return environment_.rank.value_or(0); }

  WorkerEnvironment environment_;
  TrainingSpec spec_;
  TrainCommandOptions options_;
  SystemClock clock_;
  std::unique_ptr<RuntimeService> service_;
  std::unique_ptr<TrainingObserver> observer_;
  AbortSwitch abort_switch_;
  std::mutex mesh_mutex_;       // the server's thread asks for the mesh before it exists
  std::unique_ptr<Mesh> mesh_;  // guarded by mesh_mutex_ while it is being made
  std::future<Result<TrainingParts>> loading_;
  std::optional<TrainingParts> parts_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::optional<Trainer> trainer_;
  std::optional<int> culprit_rank_;  // of the newest loss
};

int TrainingProcess::Run() {
  const Ending ending = Conclude(Train());
  TerminationMessage message;
  message.outcome = ClassifyExit(ending.exit_code, 0, "").outcome;
  message.reason = ending.reason;
  message.culprit_rank = culprit_rank_;
  if (trainer_.has_value()) {
    message.last_step = trainer_->last_applied();
  }
  if (ending.exit_code == kExitSuccess) {
    const SampleTotals totals = trainer_->SampleTotalsNow();
    message.samples = SampleCounts{totals.consumed, totals.expected, totals.lost, totals.repeated};
    if (const std::optional<EvaluationResult>& result = trainer_->test_result()) {
      message.result = TestResult{result->loss, result->accuracy};
    }
  }
  if (service_ != nullptr) {
    message.last_checkpoint_step = service_->board().Snapshot().last_checkpoint_step;
  }
  WriteTerminationMessage(environment_, message, options_.logger);
  LeaveMesh();
  return ending.exit_code;
}

// Whoever looks at the mesh ends before the mesh does.
void TrainingProcess::LeaveMesh() {
  if (observer_ != nullptr) {
    observer_->StopWatchingPeers();
  }
  const std::lock_guard<std::mutex> lock(mesh_mutex_);
  mesh_.reset();
}

Result<TrainerVerdict> TrainingProcess::Train() {
  loading_ = std::async(std::launch::async, [this] {
    return LoadTrainingParts(spec_, environment_, options_.engine_path);
  });
  LOCKSTEP_RETURN_IF_ERROR(StartService());
  LOCKSTEP_RETURN_IF_ERROR(StartMesh());
  Epoch at_least = environment_.epoch;
  int fruitless_meetings = 0;
  while (true) {
    const Step step_before = trainer_.has_value() ? trainer_->last_applied() : Step();
    observer_->RendezvousBegins();
    const SelfFacts facts{trainer_.has_value() && trainer_->has_state(), step_before, PlanHash()};
    LOCKSTEP_ASSIGN_OR_RETURN(
        Meeting meeting,
        mesh_->Meet(facts,
                    at_least,
                    Deadline::After(SteadyNow(), environment_.rendezvous_timeout),
                    options_.stop->token()));
    observer_->RendezvousEnds(meeting);
    at_least = meeting.epoch.Next();
    LOCKSTEP_RETURN_IF_ERROR(FinishLoading());

    std::unique_ptr<Communicator> communicator;
    Result<TrainerVerdict> verdict = [&]() -> Result<TrainerVerdict> {
      LOCKSTEP_ASSIGN_OR_RETURN(communicator, Connect(&meeting));
      return MeetAndTrain(meeting, communicator.get());
    }();
    abort_switch_.Set(nullptr, meeting.epoch);
    if (verdict.ok() || !MayMeetAgain(verdict.error())) {
      return verdict;
    }
    observer_->MeetingBroke(meeting.epoch, verdict.error());
    fruitless_meetings = trainer_->last_applied() > step_before ? 0 : fruitless_meetings + 1;
    if (fruitless_meetings >= kFruitlessMeetingsMax) {
      return std::move(verdict).error().Wrap(std::to_string(fruitless_meetings) +
                                             " meetings in a row led to no step");
    }
  }
}

Status TrainingProcess::StartService() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      service_,
      RuntimeService::Start(environment_, options_.logger, [this](const ControlMessage& message) {
        OnControl(message);
      }));
  observer_ = std::make_unique<TrainingObserver>(
      &service_->board(), &service_->metrics(), options_.logger, rank());
  ShowDevices(options_.devices, environment_.processes, &service_->board());
  return OkStatus();
}

Status TrainingProcess::StartMesh() {
  MeshOptions mesh;
  mesh.identity = {environment_.job_uid,
                   environment_.attempt,
                   rank(),
                   environment_.world_size,
                   environment_.incarnation};
  mesh.initial_epoch = environment_.epoch;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<HostPort> addresses,
                            RankAddresses(environment_.tf_config));
  for (const HostPort& address : addresses) {
    mesh.addresses.push_back(FormatHostPort(address));
  }
  if (addresses.empty()) {  // one rank: TF_CONFIG is absent
    mesh.addresses.push_back(FormatHostPort({environment_.host, kMeshPort}));
  }
  mesh.bind_address = environment_.bind_address;
  mesh.port = addresses.empty() ? kMeshPort : addresses.at(static_cast<std::size_t>(rank())).port;
  mesh.job_key = service_->job_key();
  mesh.silent_after = environment_.silent_after;
  mesh.heartbeat =
      std::min<Duration>(mesh.heartbeat, environment_.silent_after / kHeartbeatsMissed);
  mesh.logger = options_.logger;
  mesh.on_peer_lost = [this](const PeerLoss& loss) {
    observer_->PeerLost(loss);
    abort_switch_.Trip(
        loss.epoch,
        Error(ErrorCode::kPeerLost,
              "rank " + std::to_string(loss.rank) + " is lost: " + LossReasonName(loss.reason)));
  };
  Result<std::unique_ptr<Mesh>> started = Mesh::Start(std::move(mesh));
  if (!started.ok()) {
    return std::move(started).error();
  }
  const std::lock_guard<std::mutex> lock(mesh_mutex_);
  mesh_ = std::move(started).value();
  observer_->WatchPeers(mesh_.get());
  return OkStatus();
}

// Waits for engine and data, once, and makes the trainer from them.
Status TrainingProcess::FinishLoading() {
  if (trainer_.has_value()) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(parts_, loading_.get());
  observer_->EngineReady(parts_->engine->Description());
  if (!environment_.checkpoint_directory.empty()) {
    CheckpointStoreOptions store;
    store.directory = environment_.checkpoint_directory;
    store.writer = {
        environment_.job_uid, environment_.attempt, environment_.epoch, environment_.incarnation};
    store.keep_count = static_cast<int>(spec_.checkpoint.keep);
    store.other_job = OtherJobPolicy::kTakeOver;  // a job applied again resumes
    store.logger = options_.logger;
    store.clock = &clock_;
    LOCKSTEP_ASSIGN_OR_RETURN(checkpoints_, CheckpointStore::Open(std::move(store)));
  }
  const TrainerParts trainer_parts{parts_->engine.get(),
                                   &parts_->data.train,
                                   &parts_->data.test,
                                   checkpoints_.get(),
                                   options_.logger};
  LOCKSTEP_ASSIGN_OR_RETURN(Trainer trainer,
                            Trainer::Make(spec_, trainer_parts, observer_->Hooks()));
  trainer_.emplace(std::move(trainer));
  observer_->LengthKnown(trainer_->step_count_total());
  return OkStatus();
}

Result<std::unique_ptr<Communicator>> TrainingProcess::Connect(Meeting* meeting) {
  CommunicatorOptions communicator;
  communicator.rank = rank();
  communicator.world_size = environment_.world_size;
  communicator.epoch = meeting->epoch;
  communicator.plan_hash = PlanHash();
  communicator.links = std::move(meeting->data_links);
  for (const MemberFacts& member : meeting->members) {
    communicator.host_ids.push_back(member.host_id);
  }
  return MakeCommunicator(std::move(communicator),
                          Deadline::After(SteadyNow(), environment_.rendezvous_timeout));
}

Result<TrainerVerdict> TrainingProcess::MeetAndTrain(const Meeting& meeting,
                                                     Communicator* communicator) {
  abort_switch_.Set(communicator, meeting.epoch);
  if (checkpoints_ != nullptr && rank() == 0) {
    LOCKSTEP_RETURN_IF_ERROR(checkpoints_->Claim(meeting.epoch, environment_.incarnation));
  }
  std::vector<MemberState> members;
  for (const MemberFacts& member : meeting.members) {
    members.push_back({member.has_state, member.last_applied});
  }
  const auto element_count = static_cast<int64_t>(parts_->engine->Gradients().size());
  MultiWorkerMirrored strategy(communicator,
                               PlanBuckets(element_count, spec_.communication.bytes_per_pack));
  return trainer_->RunMeeting(members, &strategy, options_.stop->requested());
}

// A lost peer is no failure of this process: the operator replaces it and all meet again.
bool TrainingProcess::MayMeetAgain(const Error& error) {
  const ErrorCode code = error.code();
  return !options_.stop->requested().load() &&
         (code == ErrorCode::kPeerLost || code == ErrorCode::kAborted ||
          code == ErrorCode::kTimeout);
}

TrainingProcess::Ending TrainingProcess::Conclude(Result<TrainerVerdict> verdict) {
  if (!verdict.ok()) {
    return ConcludeError(verdict.error());
  }
  switch (*verdict) {
    case TrainerVerdict::kFinished:
      observer_->Finished(trainer_->test_result(), trainer_->SampleTotalsNow());
      return {kExitSuccess, "training finished"};
    case TrainerVerdict::kStopped:
      observer_->Stopped();
      return {kExitPreempted, "stopped on request after a checkpoint"};
    case TrainerVerdict::kLeft:
      observer_->Stopped();
      return {kExitSignalBase + SIGTERM, "asked to stop while the other ranks go on"};
  }
  return {kExitInternal, "no verdict"};
}

TrainingProcess::Ending TrainingProcess::ConcludeError(const Error& error) {
  if (options_.stop->requested().load()) {
    // Asked to stop while the gang was broken: what this rank holds is saved by the chief.
    const bool is_chief_with_state =
        rank() == 0 && trainer_.has_value() && checkpoints_ != nullptr && trainer_->has_state();
    const Status saved = is_chief_with_state
                             ? trainer_->SaveNow(environment_.world_size,
                                                 Deadline::After(SteadyNow(), environment_.grace))
                             : Status(error);
    if (observer_ != nullptr) {
      observer_->Stopped();
    }
    return saved.ok() ? Ending{kExitPreempted, "stopped on request after a checkpoint"}
                      : Ending{kExitSignalBase + SIGTERM, "stopped on request"};
  }
  if (observer_ != nullptr) {
    observer_->Failed();
  }
  options_.logger->Error("training failed", {{"rank", rank()}, {"error", error.ToString()}});
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kMismatch:
      return {kExitUserError, error.ToString()};
    case ErrorCode::kStale:
      return {kExitSuperseded, error.ToString()};
    case ErrorCode::kInternal:
      return {kExitInternal, error.ToString()};
    default:
      return {kExitRetryable, error.ToString()};
  }
}

// Ranks with another spec would reduce other buckets; they are told apart before the first byte.
uint64_t TrainingProcess::PlanHash() const {
  const std::string digest = Sha256Hex(DumpJson(EncodeTrainingSpec(spec_)));
  return std::stoull(digest.substr(0, 16), nullptr, 16);
}

void TrainingProcess::OnControl(const ControlMessage& message) {
  if (message.kind == ControlKind::kStop) {
    options_.stop->Request();
    return;
  }
  const std::lock_guard<std::mutex> lock(mesh_mutex_);
  if (mesh_ != nullptr) {
    mesh_->NoteGone(message.rank, message.incarnation, message.epoch);
  }
}

}  // namespace

int TrainCommand(const EnvironmentMap& variables, const TrainCommandOptions& options) {
  Result<WorkerEnvironment> environment = ParseEnvironment(variables);
  if (!environment.ok()) {
    options.logger->Error(
        "the environment does not describe a worker of a job; `lockstep run` and "
        "the operator set it",
        {{"error", environment.error().ToString()}});
    return kExitUserError;
  }
  Result<TrainingSpec> spec = ParseTrainingSpec(environment->training);
  if (!spec.ok() || !environment->rank.has_value()) {
    const Error error = spec.ok()
                            ? Error(ErrorCode::kInvalidArgument, "this pod's role does not train")
                                  .WithField(env::kRole)
                            : spec.error();
    options.logger->Error("nothing to train", {{"error", error.ToString()}});
    WriteTerminationMessage(*environment,
                            {Outcome::kPermanent, error.ToString(), {}, {}, {}, {}, {}, {}},
                            options.logger);
    return kExitUserError;
  }
  TrainingProcess process(std::move(environment).value(), std::move(spec).value(), options);
  return process.Run();
}

}  // namespace lockstep::runtime
