#include "trainer-runtime/cmd/runtime_service.h"

#include <unistd.h>
#include <utility>

#include "common/base/io/file.h"
#include "common/contract/status/initial_status.h"
#include "common/contract/text/last_line.h"
#include "trainer-runtime/telemetry/process_channel.h"
#include "trainer-runtime/telemetry/runtime_endpoints.h"

namespace lockstep::runtime {
namespace {

// Choice: `lockstep run` asks ten times a second, an operator four times.
constexpr Duration kLastQuestionPatience = std::chrono::milliseconds(500);

constexpr std::size_t kJobKeyBytesMax = 4096;  // a key is 64 characters; anything longer is no key

StatusDocument InitialDocument(const WorkerEnvironment& environment) {
  StatusDocument document = InitialStatus(environment);
  document.pid = ::getpid();
  return document;
}

Result<std::string> ReadJobKey(const std::string& path) {
  if (path.empty()) {
    return std::string();
  }
  Result<std::string> content = ReadFile(path, kJobKeyBytesMax);
  if (!content.ok()) {
    return std::move(content).error().Wrap("read the job's key").WithField(env::kJobKeyFile);
  }
  std::string key = std::move(content).value();
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) {
    key.pop_back();
  }
  return key;
}

}  // namespace

RuntimeService::RuntimeService(const WorkerEnvironment& environment)
    : board_(InitialDocument(environment)) {}

Result<std::unique_ptr<RuntimeService>> RuntimeService::Start(
    const WorkerEnvironment& environment,
    Logger* logger,
    std::function<void(const ControlMessage&)> on_control,
    std::function<std::string()> metrics_page,
    std::function<std::string()> told_page) {
  std::unique_ptr<RuntimeService> service(new RuntimeService(environment));
  LOCKSTEP_ASSIGN_OR_RETURN(service->job_key_, ReadJobKey(environment.job_key_file));
  RuntimeEndpointsOptions endpoints;
  endpoints.job_uid = environment.job_uid;
  endpoints.pod = service->board_.Snapshot().pod;
  endpoints.attempt = environment.attempt;
  endpoints.job_key = service->job_key_;
  endpoints.control_counter = environment.control_counter;
  endpoints.board = &service->board_;
  endpoints.metrics = &service->metrics_;
  endpoints.logger = logger;
  endpoints.tells_of_first_status = environment.hold.count() > 0;
  endpoints.on_control = std::move(on_control);
  endpoints.metrics_page = std::move(metrics_page);
  service->gpus_ = std::make_unique<GpuWatch>(GpuWatchOptions{}, logger);
  endpoints.pod_metrics = [gpus = service->gpus_.get(), told_page = std::move(told_page)] {
    return gpus->Page() + (told_page ? told_page() : "");
  };
  HttpServerOptions server;
  server.bind_address = environment.bind_address;
  server.port = environment.status_port;
  server.logger = logger;
  LOCKSTEP_ASSIGN_OR_RETURN(service->server_,
                            HttpServer::Start(std::move(server), MakeRuntimeRoutes(endpoints)));
  return service;
}

Result<std::unique_ptr<RuntimeService>> RuntimeService::StartBelowSupervisor(
    const WorkerEnvironment& environment,
    Logger* logger,
    std::function<void(const ControlMessage&)> on_control) {
  std::unique_ptr<RuntimeService> service(new RuntimeService(environment));
  LOCKSTEP_ASSIGN_OR_RETURN(service->job_key_, ReadJobKey(environment.job_key_file));
  service->reporter_ = std::make_unique<ProcessReporter>(
      kTrainerChannelFd, &service->board_, &service->metrics_, logger, std::move(on_control));
  return service;
}

void RuntimeService::HearLastQuestion() {
  if (reporter_ != nullptr) {
    reporter_->TellNow();
    return;
  }
  [[maybe_unused]] const bool is_told = board_.WaitUntilTold(
      kTerminationHistoryMax, Deadline::After(SteadyNow(), kLastQuestionPatience));
}

void WriteTerminationMessage(const WorkerEnvironment& environment,
                             const TerminationMessage& message,
                             Logger* logger) {
  if (environment.termination_message_file.empty()) {
    return;
  }
  // The file exists already where a kubelet made it, and its folder may not be writable.
  const Status written = WriteFileInPlace(environment.termination_message_file,
                                          EncodeTerminationMessage(message) + "\n");
  if (!written.ok()) {
    // The newest line of the log is what is left to tell why.
    logger->Warn(kMessageNotWritten,
                 {{"error", written.error().ToString()}, {"reason", message.reason}});
  }
}

}  // namespace lockstep::runtime
