#include "trainer-runtime/capi/stop_catcher.h"

#include <atomic>
#include <cerrno>
#include <csignal>

namespace lockstep::runtime {
namespace {

std::atomic<bool> was_asked{false};  // NOLINT: all that a signal handler can reach
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void NoteRequest(int /*signal*/) {
  was_asked.store(true);
}

}  // namespace

StopCatcher::~StopCatcher() {
  if (is_installed_) {
    struct sigaction usual {};

    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGTERM, &usual, nullptr);
  }
}

Status StopCatcher::Install() {
  struct sigaction present {};

  ::sigaction(SIGTERM, nullptr, &present);
  if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL) {
    return Error(ErrorCode::kInvalidArgument,
                 "catch_stop: the program already handles SIGTERM itself; leave catch_stop out and "
                 "react to the stop in that handler");
  }
  was_asked.store(false);

  struct sigaction catching {};

  catching.sa_handler = &NoteRequest;
  catching.sa_flags = SA_RESTART;
  if (::sigaction(SIGTERM, &catching, nullptr) != 0) {
    return SystemError(errno, "catch SIGTERM");
  }
  is_installed_ = true;
  return OkStatus();
}

bool StopCatcher::WasAsked() {
  return was_asked.load();
}

}  // namespace lockstep::runtime
