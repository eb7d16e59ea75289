#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "trainer-runtime/supervisor/process/warm_interpreter.h"

namespace lockstep::runtime {

// The warm interpreters of a pod: one for each local rank, born with the variables of that rank, as
// modules read some while they are imported (OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES). Where one is
// missing the log says why, once, and its processes are to be started plainly. Thread: one, the
// supervisor's.
class WarmStarts {
 public:
  // `logger` outlives this.
  WarmStarts(std::vector<std::string> names, Logger* logger);

  // Starts the interpreter of the next local rank, which then imports.
  void Add(const WarmInterpreterOptions& options);

  // Waits until all have imported what they should, or have failed to, until the deadline, or until
  // `wake_fd` is readable.
  void AwaitReady(Deadline deadline, int wake_fd);

  // A process of the interpreter of `local_rank`; null: it is to be started plainly.
  std::optional<ChildProcess> Fork(int local_rank, const WarmStart& start);

  // Of the interpreters that were started.
  std::vector<pid_t> pids() const;

  // A child of this process has ended, whether one of these or not.
  void NoteEnded(pid_t pid);

 private:
  struct Slot {
    std::string name;
    std::optional<WarmInterpreter> interpreter;
    bool is_told = false;  // that it is missing
  };

  void TakeNews(Slot* slot);
  void TellMissing(Slot* slot, const std::string& why);

  std::vector<std::string> names_;
  std::vector<Slot> slots_;  // by local rank
  Logger* const logger_;
};

}  // namespace lockstep::runtime
