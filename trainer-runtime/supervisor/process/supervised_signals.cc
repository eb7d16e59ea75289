#include "trainer-runtime/supervisor/process/supervised_signals.h"

#include <initializer_list>

#include <sys/signalfd.h>

namespace lockstep::runtime {
namespace {

sigset_t SetOf(std::initializer_list<int> members) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : members) {
    ::sigaddset(&signals, signal);
  }
  return signals;
}

}  // namespace

sigset_t SupervisedSignals() {
  return SetOf({SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD});
}

void BlockSupervisedSignals() {
  const sigset_t signals = SupervisedSignals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A reader of our output that goes away is an error of write, not our end.
  ::signal(SIGPIPE, SIG_IGN);
}

UniqueFd SignalReader(const sigset_t& signals) {
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

UniqueFd WatchForStop() {
  return SignalReader(SetOf({SIGTERM, SIGINT}));
}

}  // namespace lockstep::runtime
