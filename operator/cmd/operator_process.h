#pragma once

#include <memory>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/process/stop_signals.h"
#include "operator/cmd/flags.h"

namespace lockstep::control {

// Where a replica of the operator runs.
struct OperatorIdentity {
  std::string pod_name;        // empty: not in a pod
  std::string namespace_name;  // empty: that of the credentials
  // Of the pod. Empty: not known, and a process that is started again waits for the lease of the
  // one before it.
  std::string pod_uid{};
};

// The operator put together: starts everything in order, and stops it in the opposite one.
class OperatorProcess {
 public:
  // `logger` and `signals` outlive it.
  // Errors: no API server is named, credentials that cannot be read, flags that contradict.
  static Result<std::unique_ptr<OperatorProcess>> Start(const OperatorFlags& flags,
                                                        const OperatorIdentity& identity,
                                                        Logger* logger);

  ~OperatorProcess();
  OperatorProcess(const OperatorProcess&) = delete;
  OperatorProcess& operator=(const OperatorProcess&) = delete;

  // Waits for a signal, then stops: no turn begins any more, Events go out, the lease is given up.
  // A second signal ends the process at once.
  void RunUntilSignal(StopSignals* signals);

 private:
  class Parts;

  explicit OperatorProcess(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::control
