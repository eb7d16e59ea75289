#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/environment.h"
#include "common/contract/environment/relaunch.h"
#include "common/contract/status/control_message.h"
#include "trainer-runtime/telemetry/status_board.h"

namespace lockstep::runtime {

// Keeps a pod whose programs have ended until the operator has them started anew with those of all
// other pods of the gang, or until it is clear that it will not: its time is over, or nobody asks
// for the pod's status any more. Then the pod ends as it would have at once. Thread: any for
// messages, the supervisor's for the rest.
class ProgramHold {
 public:
  // `board` and `logger` outlive this. Errors: as eventfd(2).
  static Result<std::unique_ptr<ProgramHold>> Make(const WorkerEnvironment& environment,
                                                   StatusBoard* board,
                                                   Logger* logger);

  // A message of kind kHalt or kRelaunch. What was done already is left alone.
  void Take(const ControlMessage& message);

  // Readable when there may be news of WantsHalt.
  int fd() const { return wake_.get(); }

  // Whether the programs that run are to end, so that they can be started anew.
  bool WantsHalt();

  // Tells the operator of the end, which was now where it does not say when, and waits. Returns
  // whether the programs are to be started again; not when `stop_fd` is readable, and not where
  // nobody has asked for the status in a while.
  // Precondition: all programs have ended.
  bool AwaitRelaunch(HeldEnd end, int stop_fd);

  int64_t relaunches() const;

  // The start that the programs are of, or, while they are held, were.
  GangStart start() const;

  // What the programs of a relaunch see other than those of the first start.
  EnvironmentMap environment() const;

 private:
  ProgramHold(const WorkerEnvironment& environment,
              StatusBoard* board,
              Logger* logger,
              UniqueFd wake);
  bool TakeRelaunch();
  bool IsAskedFor(TimePoint now) const;
  void Drain() const;

  const Duration time_;
  const Attempt attempt_;
  const bool is_rank_;
  StatusBoard* const board_;
  Logger* const logger_;
  const UniqueFd wake_;  // an eventfd
  mutable std::mutex mutex_;
  int64_t done_ = 0;   // relaunches; with the rest, guarded by mutex_
  int64_t halt_ = 0;   // the newest that programs are to end for
  int64_t start_ = 0;  // the newest that they are to start for, in this epoch:
  Epoch next_epoch_;
  Epoch epoch_;  // of the programs that were started last
};

}  // namespace lockstep::runtime
