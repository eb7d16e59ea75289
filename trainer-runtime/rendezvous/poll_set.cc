#include "trainer-runtime/rendezvous/poll_set.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

// Even with nothing due the thread looks around: a lost wake-up then costs this much.
constexpr Duration kWaitMax = std::chrono::seconds(1);

}  // namespace

void PollSet::Watch(int fd, bool for_writing) {
  const auto events = static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN);
  index_[fd] = entries_.size();
  entries_.push_back(pollfd{fd, events, 0});
}

void PollSet::Wait(TimePoint now, TimePoint until) {
  const Deadline deadline = Deadline::At(std::min(until, now + kWaitMax));
  const int ready = ::poll(
      entries_.data(), static_cast<nfds_t>(entries_.size()), deadline.RemainingMilliseconds(now));
  if (ready < 0) {
    for (pollfd& entry : entries_) {
      entry.revents = 0;  // interrupted: the next round sees what is ready
    }
  }
}

bool PollSet::IsReady(int fd) const {
  const auto found = index_.find(fd);
  return found != index_.end() && entries_[found->second].revents != 0;
}

}  // namespace lockstep::runtime
