#include "operator/local/process.h"

#include <cerrno>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/check.h"
#include "common/process/find_program.h"
#include "common/process/spawn.h"

namespace lockstep::control {
namespace {

// Half way up the scale of oom_score_adj: training goes before the user's editor does.
constexpr int kOomScoreAdjustment = 500;

// Ends a child that nobody can watch, with its group. Waiting for what SIGKILL ends is bounded.
void Abandon(pid_t pid) {
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<SpawnedProcess> SpawnProcess(const SpawnRequest& request) {
  LOCKSTEP_CHECK(!request.argv.empty(), "the program to start has no name");
  SpawnOptions options;
  LOCKSTEP_ASSIGN_OR_RETURN(
      options.program,
      FindProgram(request.argv.front(), SearchPathOf(request.env), request.working_dir));
  options.arguments = request.argv;
  options.environment = request.env;
  options.working_directory = request.working_dir;
  options.output_fd = request.output_fd;
  options.error_fd = request.output_fd;
  options.leads_session = true;
  options.oom_score_adjustment = kOomScoreAdjustment;
  options.lineage_mark = request.lineage_mark;
  SpawnedProcess child;
  LOCKSTEP_ASSIGN_OR_RETURN(child.pid, Spawn(options));
  // Not reaped yet, so the pid is still this child's.
  child.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  if (!child.pidfd.is_open()) {
    const int reason = errno;
    Abandon(child.pid);
    return Error(ErrorCode::kResourceExhausted,
                 SystemError(reason, "watching \"" + request.argv.front() + "\"").message());
  }
  return child;
}

Result<ProcessExit> Reap(int pidfd) {
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info, WEXITED);
  } while (result < 0 && errno == EINTR);
  if (result != 0) {
    return SystemError(errno, "waiting for a process");
  }
  if (info.si_code == CLD_EXITED) {
    return ProcessExit{info.si_status, 0};
  }
  return ProcessExit{128 + info.si_status, info.si_status};
}

}  // namespace lockstep::control
