#include "trainer-runtime/collectives/tcp/tcp_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>

#include <sys/socket.h>
#include <sys/uio.h>

#include "common/base/check.h"
#include "common/base/io/socket_wait.h"
#include "trainer-runtime/collectives/communicator/links.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kFarewellTextMax = 1000;

}  // namespace

void TcpStream::StartSending(const Call* call, std::span<const std::byte> body) {
  LOCKSTEP_CHECK(!is_sending_, "a frame is still being sent");
  const FrameHeader header{call != nullptr ? FrameKind::kCall : FrameKind::kData, 0, body.size()};
  std::memcpy(out_head_.data(), &header, sizeof(header));
  out_head_size_ = sizeof(header);
  if (call != nullptr) {
    std::memcpy(out_head_.data() + sizeof(header), call, sizeof(*call));
    out_head_size_ += sizeof(*call);
  }
  out_body_ = body;
  out_done_ = 0;
  is_sending_ = true;
}

TcpStream::Outcome TcpStream::Send() {
  bool has_moved = false;
  while (is_sending_) {
    std::array<iovec, 2> parts{};
    std::size_t part_count = 0;
    if (out_done_ < out_head_size_) {
      parts[part_count++] = {out_head_.data() + out_done_, out_head_size_ - out_done_};
    }
    const std::size_t body_done = out_done_ - std::min(out_done_, out_head_size_);
    if (body_done < out_body_.size()) {
      // iovec has no const form; sendmsg does not write.
      parts[part_count++] = {const_cast<std::byte*>(out_body_.data()) + body_done,
                             out_body_.size() - body_done};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = part_count;
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      return WouldBlock(errno) ? (has_moved ? Outcome::kMoved : Outcome::kBlocked)
                               : Break(ErrorCode::kPeerLost, SystemError(errno, "send").message());
    }
    has_moved = true;
    out_done_ += static_cast<std::size_t>(sent);
    if (out_done_ == out_head_size_ + out_body_.size()) {
      is_sending_ = false;
      return Outcome::kFinished;
    }
  }
  return Outcome::kBlocked;
}

void TcpStream::StartReceiving(const Call* call, std::span<std::byte> body) {
  LOCKSTEP_CHECK(!is_receiving_, "a frame is still expected");
  expected_call_ = call != nullptr ? std::optional(*call) : std::nullopt;
  heard_call_.reset();
  in_body_ = body;
  in_done_ = 0;
  is_head_checked_ = false;
  is_receiving_ = true;
}

TcpStream::Outcome TcpStream::Receive() {
  const std::size_t head_size = sizeof(FrameHeader) + (expected_call_ ? sizeof(Call) : 0);
  bool has_moved = false;
  while (is_receiving_) {
    // The body goes straight to its place, so the head is read and checked alone before it. A
    // farewell is shorter than a call: its header is looked at as soon as it is there.
    const bool is_in_header = in_done_ < sizeof(FrameHeader);
    const bool is_in_head = in_done_ < head_size;
    std::byte* to =
        is_in_head ? in_head_.data() + in_done_ : in_body_.data() + (in_done_ - head_size);
    const std::size_t wanted =
        is_in_head ? head_size - in_done_ : head_size + in_body_.size() - in_done_;
    if (wanted > 0) {
      const ssize_t got = ::recv(fd_, to, wanted, MSG_DONTWAIT);
      if (got == 0) {
        return Break(ErrorCode::kPeerLost, std::string(kLinkIsClosed));
      }
      if (got < 0) {
        return WouldBlock(errno)
                   ? (has_moved ? Outcome::kMoved : Outcome::kBlocked)
                   : Break(ErrorCode::kPeerLost, SystemError(errno, "recv").message());
      }
      has_moved = true;
      in_done_ += static_cast<std::size_t>(got);
    }
    if (is_in_header && in_done_ >= sizeof(FrameHeader)) {
      FrameHeader header;
      std::memcpy(&header, in_head_.data(), sizeof(header));
      if (header.kind == FrameKind::kFarewell) {
        return ReadFarewell(header);
      }
    }
    if (!is_head_checked_ && in_done_ >= head_size) {
      if (CheckHead() == Outcome::kBroken) {
        return Outcome::kBroken;
      }
    }
    if (in_done_ == head_size + in_body_.size()) {
      is_receiving_ = false;
      return Outcome::kFinished;
    }
  }
  return Outcome::kBlocked;
}

TcpStream::Outcome TcpStream::CheckHead() {
  FrameHeader header;
  std::memcpy(&header, in_head_.data(), sizeof(header));
  if (header.kind != (expected_call_ ? FrameKind::kCall : FrameKind::kData)) {
    return Break(ErrorCode::kCorrupt, "it sent something that is not part of this call");
  }
  if (expected_call_) {
    Call call;
    std::memcpy(&call, in_head_.data() + sizeof(header), sizeof(call));
    if (!Agree(call, *expected_call_)) {
      failure_.other_call = call;
      return Break(ErrorCode::kMismatch, std::string());
    }
    heard_call_ = call;
  }
  if (header.body_size != in_body_.size()) {
    return Break(ErrorCode::kCorrupt, "it sent a different number of bytes than this call expects");
  }
  is_head_checked_ = true;
  return Outcome::kMoved;
}

// The text was sent in one piece with its header and is short: what is not here yet is given up.
TcpStream::Outcome TcpStream::ReadFarewell(const FrameHeader& header) {
  std::string text(reinterpret_cast<const char*>(in_head_.data()) + sizeof(FrameHeader),
                   in_done_ - sizeof(FrameHeader));
  const std::size_t size = std::min<std::size_t>(header.body_size, kFarewellTextMax);
  if (text.size() < size) {
    const std::size_t have = text.size();
    text.resize(size);
    const ssize_t got = ::recv(fd_, text.data() + have, size - have, MSG_DONTWAIT);
    text.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  failure_.is_peers_word = true;
  return Break(static_cast<ErrorCode>(header.code_or_zero), text.substr(0, size));
}

TcpStream::Outcome TcpStream::LookForFarewell() {
  FrameHeader header;
  const auto size = static_cast<ssize_t>(sizeof(header));
  if (is_receiving_ || ::recv(fd_, &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT) != size ||
      header.kind != FrameKind::kFarewell) {
    return Outcome::kBlocked;
  }
  StartReceiving(nullptr, {});
  return Receive();
}

void TcpStream::SendFarewell(const Error& error, Deadline deadline) noexcept {
  while (is_sending_ && out_done_ > 0 && Send() != Outcome::kBroken && is_sending_) {
    pollfd entry{fd_, POLLOUT, 0};
    if (::poll(&entry, 1, deadline.RemainingMilliseconds(SteadyNow())) <= 0) {
      break;
    }
  }
  const bool is_half_sent = is_sending_ && out_done_ > 0;
  if (!is_half_sent) {
    const std::string text = error.ToString().substr(0, kFarewellTextMax);
    const FrameHeader header{
        FrameKind::kFarewell, static_cast<uint32_t>(error.code()), text.size()};
    std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
    frame += text;
    // Best effort: a peer that cannot take it sees the end of the stream.
    static_cast<void>(::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }
  ::shutdown(fd_, SHUT_WR);
}

TcpStream::Outcome TcpStream::Break(ErrorCode code, std::string text) {
  failure_.code = code;
  failure_.text = std::move(text);
  return Outcome::kBroken;
}

}  // namespace lockstep::runtime
