#include "trainer-runtime/ps/message_socket.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

#include "common/base/io/socket_liveness.h"
#include "common/base/io/socket_wait.h"

namespace lockstep::runtime {
namespace {

static_assert(std::endian::native == std::endian::little,
              "sizes are sent in the byte order of memory");

constexpr std::size_t kHeaderBytes = sizeof(uint64_t);

// One call of recv(2): large enough to be few, small enough to be taken on somebody's word. Choice.
constexpr std::size_t kChunkBytes = 256 * 1024;

Error ConnectionLost(int error_number) {
  return Error(ErrorCode::kPeerLost, SystemError(error_number, "connection").message());
}

}  // namespace

MessageSocket::MessageSocket(UniqueFd fd) : fd_(std::move(fd)) {
  SetLivenessOptions(fd_.get());
}

Result<std::optional<std::string>> MessageSocket::Read(std::size_t* budget) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool has_size, Fill(kHeaderBytes, budget));
  if (!has_size) {
    return std::optional<std::string>();
  }
  uint64_t size = 0;
  std::memcpy(&size, incoming_.data(), kHeaderBytes);
  if (size > kMessageBytesMax) {
    return Error(ErrorCode::kCorrupt,
                 "a message of " + std::to_string(size) + " bytes is larger than the limit");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const bool has_body, Fill(kHeaderBytes + size, budget));
  if (!has_body) {
    return std::optional<std::string>();
  }
  std::string message = std::exchange(incoming_, {});
  message.erase(0, kHeaderBytes);
  return std::optional<std::string>(std::move(message));
}

// Reads until `incoming_` holds `target` bytes; false when they are not there yet.
Result<bool> MessageSocket::Fill(std::size_t target, std::size_t* budget) {
  while (incoming_.size() < target) {
    const std::size_t before = incoming_.size();
    const std::size_t chunk = std::min({target - before, kChunkBytes, *budget});
    if (chunk == 0) {
      return false;
    }
    incoming_.resize(before + chunk);
    const ssize_t got = ::recv(fd_.get(), incoming_.data() + before, chunk, 0);
    const int error_number = errno;
    incoming_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) {
      return Error(ErrorCode::kPeerLost, "the connection was closed");
    }
    if (got < 0) {
      if (WouldBlock(error_number)) {
        return false;
      }
      return ConnectionLost(error_number);
    }
    *budget -= static_cast<std::size_t>(got);
    bytes_read_ += static_cast<uint64_t>(got);
  }
  return true;
}

Status MessageSocket::Write(const std::string& message) {
  const uint64_t size = message.size();
  if (sent_ > unsent_.size() / 2) {  // one that never quite empties gives back what is gone
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
  unsent_.append(reinterpret_cast<const char*>(&size), kHeaderBytes);
  unsent_ += message;
  LOCKSTEP_RETURN_IF_ERROR(Flush());
  if (unsent_.size() - sent_ > kMessageBytesMax) {
    return Error(ErrorCode::kResourceExhausted, "the peer does not read");
  }
  return OkStatus();
}

Status MessageSocket::Flush() {
  while (sent_ < unsent_.size()) {
    const ssize_t now =
        ::send(fd_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (now >= 0) {
      sent_ += static_cast<std::size_t>(now);
      bytes_sent_ += static_cast<uint64_t>(now);
    } else if (WouldBlock(errno)) {
      return OkStatus();
    } else {
      return ConnectionLost(errno);
    }
  }
  unsent_.clear();
  sent_ = 0;
  return OkStatus();
}

}  // namespace lockstep::runtime
