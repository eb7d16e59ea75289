#include "trainer-runtime/cmd/ps_process.h"

#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/contract/status/exit_code.h"
#include "trainer-runtime/cmd/ps_training.h"
#include "trainer-runtime/cmd/training_process.h"
#include "trainer-runtime/engine/optimizer.h"
#include "trainer-runtime/ps/update_rule.h"

namespace lockstep::runtime {
namespace {

// Between two looks at how the copies stand. Choice.
constexpr Duration kCopyLookInterval = std::chrono::milliseconds(100);

}  // namespace

int PsProcess::Run() {
  const Result<Ending> served = Serve();
  const Ending ending = served.ok() ? *served : EndOf(served.error());
  if (ending.kind == EndingKind::kFailed) {
    options_.logger->Error("ps failed",
                           {{"index", environment_.task.index}, {"error", ending.reason}});
  }
  if (service_ != nullptr) {
    service_->board().SetPhase(ending.kind == EndingKind::kFailed ? Phase::kFailed
                                                                  : Phase::kStopping);
  }
  TerminationMessage message;
  message.outcome = ClassifyExit(ending.exit_code, 0, "").outcome;
  message.reason = ending.reason;
  TellEnd(environment_, options_, message);
  return ending.exit_code;
}

Result<Ending> PsProcess::Serve() {
  LOCKSTEP_RETURN_IF_ERROR(Start());
  bool is_whole = false;
  while (!options_.stop->requested().load()) {
    const std::vector<CopyStanding> standings = server_->Standings();
    if (const std::optional<Ending> ending = EndOfPs(standings)) {
      return *ending;
    }
    if (!is_whole && IsFilled(standings)) {
      is_whole = true;
      service_->board().Record(TimelineEventKind::kStateReady, SteadyNow());
    }
    std::this_thread::sleep_for(kCopyLookInterval);
  }
  return Ending{EndingKind::kStopped, kExitSignalBase + SIGTERM, "stopped on request"};
}

Status PsProcess::Start() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      service_,
      RuntimeService::Start(environment_, options_.logger, [this](const ControlMessage& message) {
        OnControl(message);
      }));
  PsServerOptions server;
  server.addresses = PsAddresses(environment_);
  const std::size_t count = server.addresses.size();
  const auto index = static_cast<std::size_t>(environment_.task.index);
  if (index >= count) {
    return Error(ErrorCode::kInvalidArgument,
                 std::to_string(index) + " found, but the job has only " + std::to_string(count) +
                     " ps")
        .WithField(env::kIndex);
  }
  std::vector<Incarnation> incarnations = environment_.ps_incarnations;
  if (incarnations.size() > count) {
    return Error(ErrorCode::kInvalidArgument,
                 std::to_string(incarnations.size()) +
                     " incarnations found, expected at most one for each of " +
                     std::to_string(count) + " ps")
        .WithField(env::kPsIncarnations);
  }
  incarnations.resize(count);  // those that are not named are the first
  LOCKSTEP_ASSIGN_OR_RETURN(const HostPort own, ParseHostPort(server.addresses[index]));
  server.identity = {environment_.job_uid,
                     environment_.attempt,
                     PsPlace(environment_.world_size, environment_.task.index),
                     environment_.world_size,
                     environment_.incarnation};
  server.bind_address = environment_.bind_address;
  server.port = own.port;
  server.job_key = service_->job_key();
  server.views = ViewsOf(incarnations);
  server.max_staleness = spec_.max_staleness.value_or(kDefaultMaxStaleness);
  server.rule = MakeUpdateRule(spec_.optimizer);
  server.slot_count = static_cast<int64_t>(OptimizerSlotNames(spec_.optimizer).size());
  server.logger = options_.logger;
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<PsServer> started, PsServer::Start(std::move(server)));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    server_ = std::move(started);
  }
  service_->board().SetPhase(Phase::kTraining);
  options_.logger->Info(
      "ps is ready",
      {{"index", environment_.task.index}, {"incarnation", environment_.incarnation.value()}});
  return OkStatus();
}

void PsProcess::OnControl(const ControlMessage& message) {
  if (message.kind == ControlKind::kStop) {
    options_.stop->Request();
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (server_ != nullptr) {
    server_->NoteWorkerGone(message.rank, message.incarnation.Next());
  }
}

}  // namespace lockstep::runtime
