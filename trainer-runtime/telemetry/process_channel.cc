#include "trainer-runtime/telemetry/process_channel.h"

#include <cerrno>
#include <poll.h>

#include <sys/socket.h>

namespace lockstep::runtime {
namespace {

bool IsWord(char letter) {
  switch (static_cast<ChannelWord>(letter)) {
    case ChannelWord::kStatus:
    case ChannelWord::kMetrics:
    case ChannelWord::kLastWords:
    case ChannelWord::kAlive:
    case ChannelWord::kGoodbye:
    case ChannelWord::kControl:
      return true;
  }
  return false;
}

}  // namespace

Result<ChannelEnds> MakeChannel() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError(errno, "make a channel");
  }
  return ChannelEnds{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Status SendToChannel(int fd, const ChannelMessage& message, Deadline deadline) {
  const std::string bytes = static_cast<char>(message.word) + message.text;
  if (bytes.size() > kChannelBytesMax) {
    return Error(ErrorCode::kResourceExhausted,
                 std::to_string(bytes.size()) + " bytes found, expected a message of at most " +
                     std::to_string(kChannelBytesMax));
  }
  for (;;) {
    if (::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
      return OkStatus();
    }
    if (errno == EPIPE || errno == ECONNRESET) {
      return Error(ErrorCode::kPeerLost, "the other end of the channel is closed");
    }
    if (errno != EAGAIN && errno != EINTR) {
      return SystemError(errno, "send over a channel");
    }
    pollfd entry{fd, POLLOUT, 0};
    if (::poll(&entry, 1, deadline.RemainingMilliseconds(SteadyNow())) == 0) {
      return Error(ErrorCode::kTimeout, "the other end of the channel does not read");
    }
  }
}

Result<std::optional<ChannelMessage>> ReceiveFromChannel(int fd) {
  std::string bytes(kChannelBytesMax, '\0');
  ssize_t count = 0;
  do {
    count = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == EAGAIN) {
    return std::optional<ChannelMessage>();
  }
  if (count <= 0) {
    return Error(ErrorCode::kPeerLost, "the other end of the channel is closed");
  }
  if (!IsWord(bytes.front())) {
    return Error(ErrorCode::kInvalidArgument, "this is not a message of the channel");
  }
  bytes.resize(static_cast<std::size_t>(count));
  return std::optional(ChannelMessage{static_cast<ChannelWord>(bytes.front()), bytes.substr(1)});
}

}  // namespace lockstep::runtime
