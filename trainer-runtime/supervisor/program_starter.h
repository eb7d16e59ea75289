#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/result.h"
#include "trainer-runtime/supervisor/process/child_process.h"
#include "trainer-runtime/supervisor/process/warm_starts.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

// Starts the processes of a command: each forked by the interpreter that is kept warm for it, or
// plainly. Thread: the supervisor's, whose children they are.
class ProgramStarter {
 public:
  explicit ProgramStarter(const SuperviseOptions& options);

  const std::string& search_path() const { return search_path_; }

  // Finds the program and has interpreters import their modules. Returns when they have, or when
  // somebody asks this process to end. Errors: as FindProgram.
  Status Prepare();

  // Precondition: prepared. Errors: as SpawnChild.
  Result<ChildProcess> Start(std::size_t local_rank, const ProcessStart& start);

  // Children that are no processes of the command.
  std::vector<pid_t> helpers() const;

  void NoteEnded(pid_t helper);

 private:
  const SuperviseOptions& options_;
  const std::string search_path_;
  std::string program_;  // a path
  std::optional<WarmStarts> warm_;
};

}  // namespace lockstep::runtime
