#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/termination_message.h"
#include "trainer-runtime/telemetry/metrics.h"
#include "trainer-runtime/telemetry/status_board.h"

namespace lockstep::runtime {

// A process's side of its channel: tells the supervisor, on a thread of its own, what is on the
// board and in the metrics, and hears what the operator says to the pod.
class ProcessReporter {
 public:
  // Everything must outlive this object, `channel_fd` open. `on_control` is called on its thread.
  ProcessReporter(int channel_fd,
                  StatusBoard* board,
                  Metrics* metrics,
                  Logger* logger,
                  std::function<void(const ControlMessage&)> on_control);

  // Tells what is on the board now. Thread: any.
  void TellNow();

  // Tells that, and then that this process goes on without a word: listens and tells no more.
  // Thread: the owner's.
  void SayGoodbye();

 private:
  void Run(const std::stop_token& stop);
  void HearControl();

  const int channel_fd_;
  StatusBoard* board_;
  Metrics* metrics_;
  Logger* logger_;
  std::function<void(const ControlMessage&)> on_control_;
  std::mutex mutex_;
  std::string told_;     // the newest document; guarded by mutex_
  std::jthread thread_;  // last: ends before what it uses
};

// Last words of a process of the built-in trainer, to its supervisor. A failure is logged.
void TellLastWords(const TerminationMessage& message, Logger* logger);

}  // namespace lockstep::runtime
