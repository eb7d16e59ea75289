#include "trainer-runtime/collectives/communicator/links.h"

#include <cerrno>
#include <poll.h>
#include <string>

#include <sys/socket.h>

#include "common/base/io/socket_wait.h"

namespace lockstep::runtime {

Status SendBytes(const UniqueFd& link, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(link.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (WouldBlock(errno)) {
      LOCKSTEP_RETURN_IF_ERROR(WaitForSocket(link.get(), POLLOUT, deadline));
    } else {
      return Error(ErrorCode::kPeerLost, SystemError(errno, "send").message());
    }
  }
  return OkStatus();
}

Status ReceiveBytes(const UniqueFd& link, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(link.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return Error(ErrorCode::kPeerLost, std::string(kLinkIsClosed));
    } else if (WouldBlock(errno)) {
      LOCKSTEP_RETURN_IF_ERROR(WaitForSocket(link.get(), POLLIN, deadline));
    } else {
      return Error(ErrorCode::kPeerLost, SystemError(errno, "recv").message());
    }
  }
  return OkStatus();
}

std::vector<int> FindLostPeers(std::span<const UniqueFd> links) {
  std::vector<pollfd> entries;
  entries.reserve(links.size());
  for (const UniqueFd& link : links) {
    entries.push_back({link.get(), POLLIN | POLLRDHUP, 0});  // poll skips negative descriptors
  }
  std::vector<int> lost;
  if (::poll(entries.data(), entries.size(), 0) <= 0) {
    return lost;
  }
  for (std::size_t peer = 0; peer < links.size(); ++peer) {
    if (entries[peer].revents == 0) {
      continue;
    }
    std::byte next{};
    const ssize_t got = ::recv(links[peer].get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && !WouldBlock(errno))) {
      lost.push_back(static_cast<int>(peer));
    }
  }
  return lost;
}

}  // namespace lockstep::runtime
