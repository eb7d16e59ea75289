#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/command/python_command.h"
#include "common/contract/environment/environment.h"
#include "trainer-runtime/supervisor/process/child_process.h"

namespace lockstep::runtime {

struct WarmInterpreterOptions {
  std::string program;               // the interpreter's file
  PythonCommand command;             // what each process runs
  std::vector<std::string> modules;  // imported before the first; not empty
  EnvironmentMap environment;        // of the processes, and of the import
  int output_fd = -1;                // for what modules write while they are imported; borrowed
};

// What one start has besides.
struct WarmStart {
  EnvironmentMap environment;    // over that of the interpreter
  int input_fd = -1;             // its input; borrowed; -1: /dev/null
  int kept_fd = -1;              // inherited, under any number; borrowed; -1: none
  std::string kept_fd_variable;  // which is told that number
};

// A Python interpreter that has imported modules and forks a process for each start, so that a
// successor does not import them again. It runs trainer-runtime/supervisor/process/fork_server.py,
// one thread, and is a child of this process. A process that it forks becomes a child of this
// process at once, leads a process group, dies with this process, and is waited for like any other:
// see docs/decisions/0021-warm-interpreters.md. Needs: this process is a subreaper. Thread: one, as
// for Spawn.
class WarmInterpreter {
 public:
  enum class State { kImporting, kReady, kGone };

  // Starts the interpreter, which then imports. Errors: as Spawn.
  static Result<WarmInterpreter> Start(const WarmInterpreterOptions& options);

  pid_t pid() const { return pid_; }

  // Readable when there is news; -1 when it is gone.
  int fd() const { return socket_.get(); }

  State state() const { return state_; }

  // Of one that is gone: why, in one sentence.
  const std::string& trouble() const { return trouble_; }

  // Threads that the modules have started, and which a fork has not. Of one that is ready.
  int thread_count() const { return thread_count_; }

  // Hears what it has said by now.
  void TakeNews();

  // A process that begins to run the program when this returns. Errors: kPeerLost (the interpreter
  // is gone, or will be seen to be), kTimeout (it is given up, and gone), kResourceExhausted. After
  // one of them nothing runs. Precondition (checked): it is ready.
  Result<ChildProcess> Fork(const WarmStart& start, Deadline deadline);

 private:
  WarmInterpreter() = default;
  void BeGone(std::string trouble);

  pid_t pid_ = 0;
  UniqueFd socket_;
  State state_ = State::kImporting;
  std::string trouble_;
  int thread_count_ = 0;
};

}  // namespace lockstep::runtime
