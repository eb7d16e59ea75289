#include "common/process/stop_signals.h"

#include <cerrno>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <sys/signalfd.h>

namespace lockstep {

Result<StopSignals> StopSignals::Block() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::sigaddset(&signals, signal);
  }

  // nohup asks to outlive the terminal; a blocked signal would come although it is ignored.
  struct sigaction hangup {};

  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN) {
    ::sigdelset(&signals, SIGHUP);
  }
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return SystemError(errno, "blocking signals");
  }
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.is_open()) {
    return SystemError(errno, "signalfd");
  }
  return StopSignals(std::move(fd));
}

std::vector<int> StopSignals::Take() {
  std::vector<int> taken;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) {
    taken.push_back(static_cast<int>(info.ssi_signo));
  }
  return taken;
}

}  // namespace lockstep
