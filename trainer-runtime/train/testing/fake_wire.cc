#include "trainer-runtime/train/testing/fake_wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <utility>

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace lockstep::runtime {
namespace {

constexpr int kLookAgainMs = 20;  // how soon a wire notices that its test is over
constexpr std::size_t kBlockBytes = 4096;

// Sends all of `bytes`; false when the other side is gone.
bool SendAll(int fd, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes += sent;
      count -= static_cast<std::size_t>(sent);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return false;
    }
    pollfd room{fd, POLLOUT, 0};
    ::poll(&room, 1, kLookAgainMs);
  }
  return true;
}

// What has come in at `from`, at most `count_max` bytes, goes out at `to`. Result: how many; -1
// when either side is gone.
ssize_t Forward(int from, int to, int64_t count_max) {
  std::array<char, kBlockBytes> block{};
  const auto room = std::min(static_cast<int64_t>(block.size()), count_max);
  const ssize_t got = ::recv(from, block.data(), static_cast<std::size_t>(room), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return 0;
  }
  return got > 0 && SendAll(to, block.data(), static_cast<std::size_t>(got)) ? got : -1;
}

}  // namespace

FakeWire::FakeWire(Links* links, std::size_t victim, int64_t bytes_until_death)
    : bytes_left_(bytes_until_death) {
  for (UniqueFd& end : (*links)[victim]) {
    if (!end.is_open()) {
      continue;  // itself
    }
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
    splices_.push_back({UniqueFd(pair[0]), std::exchange(end, UniqueFd(pair[1]))});
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Carry(stop); });
}

void FakeWire::Carry(const std::stop_token& stop) {
  while (!stop.stop_requested() && bytes_left_ > 0 && !splices_.empty()) {
    std::vector<pollfd> ready;
    for (const Splice& splice : splices_) {
      ready.push_back({splice.to_victim.get(), POLLIN, 0});
      ready.push_back({splice.to_peer.get(), POLLIN, 0});
    }
    ::poll(ready.data(), ready.size(), kLookAgainMs);
    std::erase_if(splices_, [this](Splice& splice) { return !CarryOne(&splice); });
  }
  splices_.clear();
}

// False when the link is over.
bool FakeWire::CarryOne(Splice* splice) {
  const ssize_t sent = Forward(splice->to_victim.get(), splice->to_peer.get(), bytes_left_);
  if (sent < 0) {
    return false;
  }
  bytes_left_ -= sent;
  return bytes_left_ > 0 &&
         Forward(splice->to_peer.get(), splice->to_victim.get(), kBlockBytes) >= 0;
}

}  // namespace lockstep::runtime
