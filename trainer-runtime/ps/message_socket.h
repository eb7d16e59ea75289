#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"

namespace lockstep::runtime {

// Largest message and most that waits to be sent: far above any model, so that a damaged size is
// refused. Memory is taken as bytes arrive, not as a size says. Choice.
inline constexpr uint64_t kMessageBytesMax = uint64_t{1} << 39U;

// One round's reading from one peer; the others' turn comes after it. Choice: a few milliseconds of
// a fast network.
inline constexpr std::size_t kBytesARound = 8 * 1024 * 1024;

// A connection that carries messages of any length: the size in 64 bits little endian, then the
// bytes. Non-blocking. Thread: one.
class MessageSocket {
 public:
  // `fd`: connected and non-blocking. It gets SetLivenessOptions: a peer whose host falls silent is
  // found.
  explicit MessageSocket(UniqueFd fd);

  int fd() const { return fd_.get(); }

  // The next whole message; nullopt while it has not arrived, or when the budget is used up.
  // Takes what it reads off `budget`, in bytes.
  // Errors: kPeerLost (closed or reset), kCorrupt (longer than kMessageBytesMax).
  Result<std::optional<std::string>> Read(std::size_t* budget);

  // Sends what fits now and keeps the rest for Flush.
  // Errors: kPeerLost, kResourceExhausted (the peer does not read: over kMessageBytesMax wait).
  Status Write(const std::string& message);

  // Sends what waits. Errors: kPeerLost.
  Status Flush();

  bool has_unsent() const { return sent_ < unsent_.size(); }

  // Bytes since the connection stands: read, given to Write, and of these sent.
  uint64_t bytes_read() const { return bytes_read_; }

  uint64_t bytes_written() const { return bytes_sent_ + (unsent_.size() - sent_); }

  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  Result<bool> Fill(std::size_t target, std::size_t* budget);

  UniqueFd fd_;
  std::string incoming_;  // the message being read, size included
  std::string unsent_;
  std::size_t sent_ = 0;  // bytes of unsent_ that are gone
  uint64_t bytes_read_ = 0;
  uint64_t bytes_sent_ = 0;
};

}  // namespace lockstep::runtime
