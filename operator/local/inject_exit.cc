#include "operator/local/inject_exit.h"

#include <cerrno>
#include <poll.h>
#include <string>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "common/base/time.h"

namespace lockstep::control {

#if defined(__x86_64__)

namespace {

constexpr auto kStopPatience = std::chrono::seconds(1);
constexpr long kSyscallInstruction = 0x050f;  // the bytes 0f 05

Status Trace(bool done, const char* doing) {
  return done ? OkStatus() : Status(SystemError(errno, doing));
}

// Waits for the stop without reaping: an exit belongs to the pod's owner.
Status AwaitStop(pid_t pid) {
  const Deadline deadline = Deadline::After(SteadyNow(), kStopPatience);
  while (!deadline.HasPassed(SteadyNow())) {
    siginfo_t info{};
    const int waited = ::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG | __WALL);
    if (waited != 0) {
      return SystemError(errno, "waiting for the process to stop");
    }
    if (info.si_pid == pid) {
      return OkStatus();
    }
    ::poll(nullptr, 0, 1);
  }
  return Error(ErrorCode::kTimeout, "the process did not stop in time");
}

// The stopped process continues with `syscall` as its next instruction and exit_group's arguments
// in its registers. orig_rax = -1: a system call that was interrupted is not started again.
Status RedirectToExit(pid_t pid, int exit_code) {
  user_regs_struct registers{};
  LOCKSTEP_RETURN_IF_ERROR(Trace(::ptrace(PTRACE_GETREGS, pid, nullptr, &registers) == 0,
                                 "reading the registers of the process"));
  void* const next = reinterpret_cast<void*>(registers.rip);
  errno = 0;
  const long word = ::ptrace(PTRACE_PEEKTEXT, pid, next, nullptr);
  LOCKSTEP_RETURN_IF_ERROR(Trace(errno == 0, "reading the machine code of the process"));
  const long patched = (word & ~0xffffL) | kSyscallInstruction;
  LOCKSTEP_RETURN_IF_ERROR(Trace(::ptrace(PTRACE_POKETEXT, pid, next, patched) == 0,
                                 "writing the machine code of the process"));
  registers.orig_rax = ~0ULL;
  registers.rax = SYS_exit_group;
  registers.rdi = static_cast<unsigned long long>(exit_code);
  return Trace(::ptrace(PTRACE_SETREGS, pid, nullptr, &registers) == 0,
               "writing the registers of the process");
}

}  // namespace

Status InjectExit(pid_t pid, int exit_code) {
  LOCKSTEP_RETURN_IF_ERROR(
      Trace(::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0, "tracing the process"));
  Status done =
      Trace(::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) == 0, "stopping the process");
  if (done.ok()) {
    done = AwaitStop(pid);
  }
  if (done.ok()) {
    done = RedirectToExit(pid, exit_code);
  }
  // Fails only when the process is not stopped; it then stays traced, unharmed, until it ends.
  ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  return done;
}

#else

Status InjectExit(pid_t, int) {
  return Error(ErrorCode::kInvalidArgument,
               "an exit code can be injected only on x86-64 processors");
}

#endif

}  // namespace lockstep::control
