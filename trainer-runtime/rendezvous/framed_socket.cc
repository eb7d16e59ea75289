#include "trainer-runtime/rendezvous/framed_socket.h"

#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "common/base/io/socket_wait.h"

namespace lockstep::runtime {
namespace {

Error Lost(int error_number) {
  return Error(ErrorCode::kPeerLost, SystemError(error_number, "connection").message());
}

std::size_t BodySize(const std::string& bytes) {
  std::size_t size = 0;
  for (std::size_t index = 0; index < kFrameHeaderBytes; ++index) {
    size |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[index])) << (8 * index);
  }
  return size;
}

}  // namespace

Result<std::optional<std::string>> FramedSocket::Read() {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool has_size, Fill(kFrameHeaderBytes));
  if (!has_size) {
    return std::optional<std::string>();
  }
  const std::size_t size = BodySize(incoming_);
  if (size == 0 || size > kFrameBytesMax) {
    return Error(ErrorCode::kCorrupt, "impossible frame size: " + std::to_string(size) + " bytes");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const bool has_body, Fill(kFrameHeaderBytes + size));
  if (!has_body) {
    return std::optional<std::string>();
  }
  std::string body = incoming_.substr(kFrameHeaderBytes);
  incoming_.clear();
  return std::optional<std::string>(std::move(body));
}

// Reads until `incoming_` holds `target` bytes; false when they have not arrived yet.
Result<bool> FramedSocket::Fill(std::size_t target) {
  std::array<char, kFrameHeaderBytes + kFrameBytesMax> buffer{};
  while (incoming_.size() < target) {
    const ssize_t got = ::recv(fd_.get(), buffer.data(), target - incoming_.size(), 0);
    if (got > 0) {
      incoming_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return Error(ErrorCode::kPeerLost, "the connection was closed");
    } else if (WouldBlock(errno)) {
      return false;
    } else {
      return Lost(errno);
    }
  }
  return true;
}

Status FramedSocket::Write(const std::string& body) {
  unsent_ += WithSize(body);
  LOCKSTEP_RETURN_IF_ERROR(Flush());
  if (unsent_.size() > kUnsentBytesMax) {
    return Error(ErrorCode::kResourceExhausted, "the peer does not read");
  }
  return OkStatus();
}

Status FramedSocket::Flush() {
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t now =
        ::send(fd_.get(), unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL);
    if (now >= 0) {
      sent += static_cast<std::size_t>(now);
    } else if (WouldBlock(errno)) {
      break;
    } else {
      return Lost(errno);
    }
  }
  unsent_.erase(0, sent);
  return OkStatus();
}

}  // namespace lockstep::runtime
