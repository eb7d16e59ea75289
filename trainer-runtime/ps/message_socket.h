#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace lockstep::runtime {

// Largest message and most that waits to be sent: far above any model, so that a damaged size is
// refused. Memory is taken as bytes arrive, not as a size says. Choice.
inline constexpr uint64_t kMessageBytesMax = uint64_t{1} << 39U;

// One round's reading from one peer; the others' turn comes after it. Choice.
inline constexpr int kMessagesARound = 64;

// A connection that carries messages of any length: the size in 64 bits little endian, then the
// bytes. Non-blocking. Thread: one.
class MessageSocket {
 public:
  // `fd`: connected and non-blocking.
  explicit MessageSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  // The next whole message; nullopt while it has not arrived.
  // Errors: kPeerLost (closed or reset), kCorrupt (longer than kMessageBytesMax).
  Result<std::optional<std::string>> Read();

  // Sends what fits now and keeps the rest for Flush.
  // Errors: kPeerLost, kResourceExhausted (the peer does not read: over kMessageBytesMax wait).
  Status Write(const std::string& message);

  // Sends what waits. Errors: kPeerLost.
  Status Flush();

  bool has_unsent() const { return sent_ < unsent_.size(); }

 private:
  Result<bool> Fill(std::size_t target);

  UniqueFd fd_;
  std::string incoming_;  // the message being read, size included
  std::string unsent_;
  std::size_t sent_ = 0;  // bytes of unsent_ that are gone
};

}  // namespace lockstep::runtime
