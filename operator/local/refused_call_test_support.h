#pragma once

#include <cstddef>
#include <iterator>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/base/check.h"

namespace lockstep::control {

// From here on the kernel refuses this process every call of that number, with `error_number`: what
// it does where it lacks room, at will. False: it grants no such filter. Source: seccomp(2).
inline bool RefuseCall(int number, int error_number) {
  const auto refusal = SECCOMP_RET_ERRNO | static_cast<unsigned>(error_number);
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, refusal),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(steps)), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Runs `body`, which ends by _exit, in a process of its own. Returns the exit code; -1: a signal.
template <typename Body>
int ExitCodeOfChild(Body body) {
  const pid_t child = ::fork();
  LOCKSTEP_CHECK(child >= 0, "fork");
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  LOCKSTEP_CHECK(::waitpid(child, &status, 0) == child, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether RefuseCall works here.
inline bool CanRefuseCalls() {
  return ExitCodeOfChild([] { ::_exit(RefuseCall(-1, 1) ? 0 : 1); }) == 0;
}

}  // namespace lockstep::control
