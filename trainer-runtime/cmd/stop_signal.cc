#include "trainer-runtime/cmd/stop_signal.h"

#include <csignal>
#include <ctime>

namespace lockstep::runtime {
namespace {

sigset_t HeldSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void HoldStopSignals() {
  const sigset_t signals = HeldSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void ReleaseStopSignals() {
  const sigset_t signals = HeldSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

StopSignal::StopSignal() {
  HoldStopSignals();
  waiter_ = std::jthread([this](const std::stop_token& ending) {
    const sigset_t wanted = HeldSignals();
    constexpr timespec kLookAtEnding{0, 100'000'000};  // bounds how long destruction waits
    while (!ending.stop_requested()) {
      if (sigtimedwait(&wanted, nullptr, &kLookAtEnding) > 0) {
        Request();
      }
    }
  });
}

void StopSignal::Request() {
  requested_.store(true);
  source_.request_stop();
}

}  // namespace lockstep::runtime
