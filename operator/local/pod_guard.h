#pragma once

#include <string>
#include <utility>

#include <sys/types.h>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace lockstep::control {

// A tiny process beside this one that outlives it by a moment: when this process ends for whatever
// reason, SIGKILL included, the guard kills every process of the sessions it was told about and
// every process that carries the marker in its environment. (The kernel's parent-death signal
// reaches only direct children.) A secret of the run it removes where this process cannot any more.
class PodGuard {
 public:
  // Forks the guard. Call before any thread is started: the guard runs on without exec.
  // `environment_prefix`: see ProcessSelector. `secret_file`: empty for none.
  // Errors: kResourceExhausted, kIo.
  static Result<PodGuard> Start(std::string environment_prefix, std::string secret_file);

  PodGuard(PodGuard&& other) noexcept;
  PodGuard& operator=(PodGuard&& other) = delete;

  // Lets the guard finish its sweep and reaps it.
  ~PodGuard();

  // Adds or removes a session from those to be killed.
  void Watch(pid_t session);
  void Forget(pid_t session);

  pid_t pid() const { return pid_; }

 private:
  PodGuard(pid_t pid, UniqueFd channel) : pid_(pid), channel_(std::move(channel)) {}

  void Send(pid_t record);

  pid_t pid_;         // 0 after a move
  UniqueFd channel_;  // its other end closes when this process ends: that is the guard's alarm
};

}  // namespace lockstep::control
