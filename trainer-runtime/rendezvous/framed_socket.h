#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "trainer-runtime/rendezvous/frames.h"

namespace lockstep::runtime {

// A non-blocking stream socket that carries frames. It never reads past the frame it returns: what
// follows a handshake on a data connection belongs to somebody else.
class FramedSocket {
 public:
  explicit FramedSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  // The next whole frame's body; nullopt when it has not arrived yet.
  // Errors: kPeerLost (closed or reset), kCorrupt (empty, or longer than kFrameBytesMax).
  Result<std::optional<std::string>> Read();

  // Sends what fits now and keeps the rest for Flush.
  // Errors: kPeerLost, kResourceExhausted (the peer does not read: over kUnsentBytesMax wait).
  Status Write(const std::string& body);

  // Sends what waits. Errors: kPeerLost.
  Status Flush();

  bool has_unsent() const { return !unsent_.empty(); }

  // The bare socket, for its next owner.
  UniqueFd Release() && { return std::move(fd_); }

 private:
  // Hundreds of heartbeats: a peer that leaves so much unread is lost to us. Choice.
  static constexpr std::size_t kUnsentBytesMax = 64 * 1024;

  Result<bool> Fill(std::size_t target);

  UniqueFd fd_;
  std::string incoming_;  // the frame being read, size included
  std::string unsent_;
};

}  // namespace lockstep::runtime
