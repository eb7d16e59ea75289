#include "trainer-runtime/supervisor/process/child_process.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "common/process/spawn.h"

namespace lockstep::runtime {

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return SystemError(errno, "make a pipe");
  }
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  if (::fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK) != 0) {
    return SystemError(errno, "make a pipe non-blocking");
  }
  return pipe;
}

Result<ChildProcess> SpawnChild(const ChildOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  SpawnOptions spawn;
  spawn.program = options.program;
  spawn.arguments = options.command;
  spawn.environment = options.environment;
  spawn.input_fd = options.input_fd;
  spawn.kept_fd = options.kept_fd;
  spawn.output_fd = output.writer.get();
  spawn.error_fd = error.writer.get();
  ChildProcess child;
  LOCKSTEP_ASSIGN_OR_RETURN(child.pid, Spawn(spawn));
  child.output = std::move(output.reader);
  child.error = std::move(error.reader);
  return child;
}

}  // namespace lockstep::runtime
