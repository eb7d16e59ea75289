#pragma once

#include <string>
#include <utility>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/local/pod_processes.h"

namespace lockstep::control {

// A tiny process beside this one that outlives it by a moment: when this process ends for whatever
// reason, SIGKILL included, the guard kills every process of the sessions it was told about and
// every process that carries one of the marks. (The kernel's parent-death signal reaches only
// direct children.) A secret of the run it removes where this process cannot any more.
class PodGuard {
 public:
  // Forks the guard, which runs on without exec: beside other threads it may only allocate memory
  // and make system calls, as it does (glibc keeps malloc usable in a child).
  // `marked`: whom to kill beside the sessions it is told about. `secret_file`: empty for none.
  // Errors: kResourceExhausted, kIo.
  static Result<PodGuard> Start(ProcessSelector marked, const std::string& secret_file);

  PodGuard(PodGuard&& other) noexcept;
  PodGuard& operator=(PodGuard&& other) = delete;

  // As End, with some seconds.
  ~PodGuard();

  // Lets the guard finish its sweep and reaps it. False: it had not ended after `patience`, as one
  // that is stopped does not, and was killed.
  bool End(Duration patience);

  // Adds or removes a session from those to be killed. Does not wait: a guard that takes nothing in
  // is killed, since it would kill by numbers that are others' by then.
  void Watch(pid_t session);
  void Forget(pid_t session);

  pid_t pid() const { return pid_; }

  // Readable from its end on.
  int pidfd() const { return pidfd_.get(); }

 private:
  PodGuard(pid_t pid, UniqueFd pidfd, UniqueFd channel)
      : pid_(pid), pidfd_(std::move(pidfd)), channel_(std::move(channel)) {}

  void Send(pid_t record);

  pid_t pid_;  // 0 after a move, and when it was reaped
  UniqueFd pidfd_;
  bool was_deaf_ = false;  // it took nothing in, and was killed
  UniqueFd channel_;       // its other end closes when this process ends: that is the guard's alarm
};

}  // namespace lockstep::control
