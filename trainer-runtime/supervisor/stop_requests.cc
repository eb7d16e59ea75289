#include "trainer-runtime/supervisor/stop_requests.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <unistd.h>
#include <utility>

#include <sys/syscall.h>

namespace lockstep::runtime {
namespace {

bool HasEnded(int pid_fd) {
  pollfd entry{pid_fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) != 0;
}

}  // namespace

Duration KillAfter(Duration grace) {
  constexpr Duration kMarginMax = std::chrono::seconds(1);
  constexpr int kMarginShare = 5;
  return grace - std::min(kMarginMax, grace / kMarginShare);
}

void StopRequests::Ask(pid_t leader, pid_t session, int signal) {
  UniqueFd pid_fd;
  if (session > 0) {
    // Names the process even after its number is another's (pidfd_open(2)). Its group is looked at
    // after that, so that a stranger's number is found out. Old kernels have none.
    pid_fd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, session, 0)));
  }
  if (!pid_fd.is_open() || ::getpgid(session) != leader || HasEnded(pid_fd.get())) {
    waiting_.erase(leader);
    ::kill(-leader, signal);
    return;
  }
  ::syscall(SYS_pidfd_send_signal, pid_fd.get(), signal, nullptr, 0);
  waiting_[leader] = Waiting{std::move(pid_fd), signal};
}

void StopRequests::AddEntries(std::vector<pollfd>* entries) const {
  for (const auto& [leader, waiting] : waiting_) {
    entries->push_back({waiting.session.get(), POLLIN, 0});
  }
}

void StopRequests::Pass() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (HasEnded(at->second.session.get())) {
      ::kill(-at->first, at->second.signal);
      at = waiting_.erase(at);
    } else {
      ++at;
    }
  }
}

}  // namespace lockstep::runtime
