#include "trainer-runtime/collectives/shared_memory/shared_segment.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/base/digest.h"
#include "common/base/io/socket_wait.h"
#include "trainer-runtime/collectives/communicator/links.h"

namespace lockstep::runtime {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// 128 random bits each: the token cannot be guessed, the name cannot collide.
constexpr std::size_t kRandomBytes = 16;
constexpr std::size_t kTokenSize = 2 * kRandomBytes;

// How long a caller may take to present its token, which it sends at once. Choice: rank 0 serves
// nobody else meanwhile.
constexpr Duration kTokenPatience = std::chrono::milliseconds(500);

// Waits until the server of a segment answers on `socket`. The peer behind `link` may be gone or
// given up meanwhile. Errors: kTimeout, kPeerLost, kIo.
Status WaitForAnswer(int socket, int link, Deadline deadline) {
  while (!deadline.HasPassed(SteadyNow())) {
    std::array<pollfd, 2> entries{{{socket, POLLIN, 0}, {link, POLLRDHUP, 0}}};
    const int wait_ms = deadline.RemainingMilliseconds(SteadyNow());
    if (::poll(entries.data(), entries.size(), wait_ms) < 0 && !WouldBlock(errno)) {
      return SystemError(errno, "shared memory: poll");
    }
    if (entries[0].revents != 0) {
      return OkStatus();
    }
    if (entries[1].revents != 0) {
      return Error(ErrorCode::kPeerLost, std::string(kLinkIsClosed));
    }
  }
  return Error(ErrorCode::kTimeout, "shared memory: the other side did not answer");
}

sockaddr_un AbstractAddress(const std::string& name, socklen_t* size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// One byte with room for a descriptor. Stays where it is made.
struct DescriptorMessage {
  DescriptorMessage() {
    raw.msg_iov = &part;
    raw.msg_iovlen = 1;
    raw.msg_control = control.data();
    raw.msg_controllen = control.size();
  }

  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr raw{};
};

// Sends one byte with `fd` attached.
Status SendDescriptor(int socket, int fd) {
  DescriptorMessage message;
  cmsghdr* header = CMSG_FIRSTHDR(&message.raw);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  if (::sendmsg(socket, &message.raw, MSG_NOSIGNAL) != 1) {
    return SystemError(errno, "shared memory: sendmsg");
  }
  return OkStatus();
}

Result<UniqueFd> ReceiveDescriptor(int socket) {
  DescriptorMessage message;
  const ssize_t got = ::recvmsg(socket, &message.raw, MSG_CMSG_CLOEXEC);
  if (got < 0) {
    return SystemError(errno, "shared memory: recvmsg");
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message.raw);
  if (got != 1 || header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return Error(ErrorCode::kUnavailable, "shared memory: the other side refused the descriptor");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return UniqueFd(fd);
}

// Maps the whole file.
Result<std::byte*> MapShared(int fd, std::size_t byte_count, int protection, int populate) {
  void* address = ::mmap(nullptr, byte_count, protection, MAP_SHARED | populate, fd, 0);
  if (address == MAP_FAILED) {
    return SystemError(errno, "shared memory: mmap");
  }
  return static_cast<std::byte*>(address);
}

// Makes every page present: the first collective should not pay for faults.
Result<std::byte*> MapToWrite(int fd, std::size_t byte_count) {
  return MapShared(fd, byte_count, PROT_READ | PROT_WRITE, MAP_POPULATE);
}

// Errors: kCorrupt (other size, or not sealed), kIo.
Status CheckSealed(int fd, std::size_t byte_count) {
  struct stat info {};

  if (::fstat(fd, &info) != 0) {
    return SystemError(errno, "shared memory: fstat");
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (info.st_size != static_cast<off_t>(byte_count) || seals < 0 || (seals & kSeals) != kSeals) {
    return Error(ErrorCode::kCorrupt,
                 "shared memory: the descriptor has the wrong size or is not sealed");
  }
  return OkStatus();
}

// A file of that size that nobody can seal yet.
Result<UniqueFd> CreateFile(std::size_t byte_count) {
  UniqueFd fd(::memfd_create("lockstep-collectives", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) {
    return SystemError(errno, "shared memory: memfd_create");
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(byte_count)) != 0) {
    return SystemError(errno, "shared memory: ftruncate");
  }
  return fd;
}

}  // namespace

Result<SharedSegment> SharedSegment::Create(std::size_t byte_count) {
  LOCKSTEP_ASSIGN_OR_RETURN(UniqueFd fd, CreateFile(byte_count));
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return SystemError(errno, "shared memory: seal");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte * data, MapToWrite(fd.get(), byte_count));
  return SharedSegment(std::move(fd), data, byte_count, /*is_owner=*/true);
}

Result<SharedSegment> SharedSegment::CreateForReaders(std::size_t byte_count) {
  LOCKSTEP_ASSIGN_OR_RETURN(UniqueFd fd, CreateFile(byte_count));
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte * data, MapToWrite(fd.get(), byte_count));
  SharedSegment segment(std::move(fd), data, byte_count, /*is_owner=*/true);
  const bool is_sealed =
      ::fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | kSeals) == 0 ||
      (errno == EINVAL && ::fcntl(segment.fd(), F_ADD_SEALS, kSeals) == 0);  // an older kernel
  if (!is_sealed) {
    return SystemError(errno, "shared memory: seal");
  }
  return segment;
}

Result<SharedSegment> SharedSegment::Map(UniqueFd fd, std::size_t byte_count) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSealed(fd.get(), byte_count));
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte * data, MapToWrite(fd.get(), byte_count));
  return SharedSegment(std::move(fd), data, byte_count, /*is_owner=*/true);
}

Result<SharedSegment> SharedSegment::MapReadOnly(UniqueFd fd, std::size_t byte_count) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSealed(fd.get(), byte_count));
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte * data, MapShared(fd.get(), byte_count, PROT_READ, 0));
  return SharedSegment(UniqueFd(), data, byte_count, /*is_owner=*/true);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      byte_count_(std::exchange(other.byte_count_, 0)),
      is_owner_(std::exchange(other.is_owner_, false)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(byte_count_, other.byte_count_);
  std::swap(is_owner_, other.is_owner_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (is_owner_) {
    ::munmap(data_, byte_count_);
  }
}

void MapPagesToRead(const void* begin, std::size_t byte_count) {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which older headers lack
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = at / page * page;
  static_cast<void>(
      ::madvise(reinterpret_cast<void*>(first), at + byte_count - first, kPopulateRead));
}

Result<SegmentServer> SegmentServer::Open(const SharedSegment& segment) {
  SegmentOffer offer{
      "lockstep-" + RandomHex(kRandomBytes), RandomHex(kRandomBytes), segment.size()};
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_open()) {
    return SystemError(errno, "shared memory: socket");
  }
  socklen_t size = 0;
  const sockaddr_un address = AbstractAddress(offer.socket_name, &size);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return SystemError(errno, "shared memory: bind");
  }
  if (::listen(listener.get(), SOMAXCONN) != 0) {
    return SystemError(errno, "shared memory: listen");
  }
  return SegmentServer(std::move(listener), std::move(offer));
}

bool SegmentServer::ServeOne(const SharedSegment& segment) {
  const UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!caller.is_open()) {
    return false;
  }
  const Deadline deadline = Deadline::After(SteadyNow(), kTokenPatience);
  std::array<char, kTokenSize> token{};
  std::size_t got = 0;
  while (got < token.size()) {
    if (!WaitForSocket(caller.get(), POLLIN, deadline).ok()) {
      return false;
    }
    const ssize_t size = ::recv(caller.get(), token.data() + got, token.size() - got, MSG_DONTWAIT);
    if (size <= 0) {
      return false;
    }
    got += static_cast<std::size_t>(size);
  }
  if (!ConstantTimeEquals(std::string_view(token.data(), token.size()), offer_.token)) {
    return false;
  }
  // A caller that is gone by now is noticed through its link.
  static_cast<void>(SendDescriptor(caller.get(), segment.fd()).ok());
  return true;
}

Result<UniqueFd> CallSegmentServer(const SegmentOffer& offer) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return SystemError(errno, "shared memory: socket");
  }
  socklen_t size = 0;
  const sockaddr_un address = AbstractAddress(offer.socket_name, &size);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return SystemError(errno, "shared memory: connect");
  }
  const ssize_t sent =
      ::send(socket.get(), offer.token.data(), offer.token.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(offer.token.size())) {
    return SystemError(errno, "shared memory: send");
  }
  return socket;
}

Result<UniqueFd> AwaitDescriptor(const UniqueFd& call, const UniqueFd& link, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(WaitForAnswer(call.get(), link.get(), deadline));
  return ReceiveDescriptor(call.get());
}

Result<SharedSegment> FetchSegment(const SegmentOffer& offer,
                                   const UniqueFd& link,
                                   Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const UniqueFd call, CallSegmentServer(offer));
  LOCKSTEP_ASSIGN_OR_RETURN(UniqueFd fd, AwaitDescriptor(call, link, deadline));
  return SharedSegment::Map(std::move(fd), offer.byte_count);
}

}  // namespace lockstep::runtime
