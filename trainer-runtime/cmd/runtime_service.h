#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/termination_message.h"
#include "common/http/http_server.h"
#include "trainer-runtime/cmd/devices/gpu_watch.h"
#include "trainer-runtime/telemetry/metrics.h"
#include "trainer-runtime/telemetry/process_reporter.h"
#include "trainer-runtime/telemetry/status_board.h"

namespace lockstep::runtime {

// What a pod shows to the outside while it runs: status, metrics, and an ear for the operator.
// Thread: as its parts.
class RuntimeService {
 public:
  // Reads the job's key and starts serving on the pod's status port. `on_control` is called on the
  // server's thread, and so is `metrics_page`, whose page is served in place of our own unless it
  // is empty, and `told_page`, whose page follows it. Errors: kNotFound (key file), kIo (port
  // taken; names the address).
  static Result<std::unique_ptr<RuntimeService>> Start(
      const WorkerEnvironment& environment,
      Logger* logger,
      std::function<void(const ControlMessage&)> on_control,
      std::function<std::string()> metrics_page = nullptr,
      std::function<std::string()> told_page = nullptr);

  // The same in one of several processes of a pod, whose supervisor serves it: what is shown goes
  // there. Errors: kNotFound (key file).
  static Result<std::unique_ptr<RuntimeService>> StartBelowSupervisor(
      const WorkerEnvironment& environment,
      Logger* logger,
      std::function<void(const ControlMessage&)> on_control);

  StatusBoard& board() { return board_; }

  // Last words have no room for all data epochs of a short training: where more were not told yet,
  // and somebody asks for the status, waits for the next question, half a second at most. Below a
  // supervisor it is the one who waits, and is told all.
  void HearLastQuestion();

  Metrics& metrics() { return metrics_; }

  // The job's secret; empty when the pod has none.
  const std::string& job_key() const { return job_key_; }

 private:
  explicit RuntimeService(const WorkerEnvironment& environment);

  std::string job_key_;
  StatusBoard board_;
  Metrics metrics_;
  std::unique_ptr<GpuWatch> gpus_;  // null below a supervisor, which has its own
  // Last, as they stop before what they serve from; one of them is empty.
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<ProcessReporter> reporter_;
};

// Writes a process's last words to the file that the pod names, if it names one. A failure is
// logged: the exit code tells the outcome as well.
void WriteTerminationMessage(const WorkerEnvironment& environment,
                             const TerminationMessage& message,
                             Logger* logger);

}  // namespace lockstep::runtime
