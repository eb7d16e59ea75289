#include "common/base/io/socket_wait.h"

#include <cerrno>
#include <poll.h>

namespace lockstep {

bool WouldBlock(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

Status WaitForSocket(int fd, short events, Deadline deadline) {
  while (!deadline.HasPassed(SteadyNow())) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, deadline.RemainingMilliseconds(SteadyNow()));
    if (ready > 0) {
      return OkStatus();
    }
    if (ready < 0 && errno != EINTR) {
      return SystemError(errno, "poll");
    }
  }
  return Error(ErrorCode::kTimeout, "no answer in time");
}

}  // namespace lockstep
