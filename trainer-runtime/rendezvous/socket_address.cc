#include "trainer-runtime/rendezvous/socket_address.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace lockstep::runtime {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<std::vector<SocketAddress>> Look(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  const int code = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (code != 0) {
    const std::string reason = code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
    return Error(ErrorCode::kUnavailable, "cannot resolve " + host + ": " + reason);
  }
  const AddressList list(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

const sockaddr* Generic(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

void SendWithoutDelay(int fd) {
  const int on = 1;
  // Failure only costs latency.
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

std::string SocketAddress::ToString() const {
  char host[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage);
    ::inet_ntop(AF_INET6, &address->sin6_addr, host, sizeof(host));
    return "[" + std::string(host) + "]:" + std::to_string(port());
  }
  const auto* address = reinterpret_cast<const sockaddr_in*>(&storage);
  ::inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host));
  return std::string(host) + ":" + std::to_string(port());
}

int SocketAddress::port() const {
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

Result<SocketAddress> ParseNumericAddress(const std::string& host, int port) {
  Result<std::vector<SocketAddress>> found = Look(host, port, AI_NUMERICHOST);
  if (!found.ok() || found->empty()) {
    return Error(ErrorCode::kInvalidArgument, "\"" + host + "\" is not a numeric address");
  }
  return found->front();
}

Result<std::vector<SocketAddress>> ResolveName(const std::string& host, int port) {
  return Look(host, port, AI_ADDRCONFIG);
}

Result<UniqueFd> ListenOn(const std::string& host, int port, int backlog) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SocketAddress address, ParseNumericAddress(host, port));
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return SystemError(errno, "socket for " + address.ToString());
  }
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool is_listening =
      ::bind(fd.get(), Generic(address), address.size) == 0 && ::listen(fd.get(), backlog) == 0;
  if (!is_listening) {
    const int error_number = errno;
    if (error_number == EADDRINUSE) {
      return Error(ErrorCode::kAlreadyExists,
                   "cannot listen on " + address.ToString() + ": the port is taken");
    }
    return SystemError(error_number, "cannot listen on " + address.ToString());
  }
  return fd;
}

Result<int> BoundPort(const UniqueFd& socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  auto* generic = reinterpret_cast<sockaddr*>(&address.storage);
  if (::getsockname(socket.get(), generic, &address.size) != 0) {
    return SystemError(errno, "getsockname");
  }
  return address.port();
}

Result<UniqueFd> StartConnect(const SocketAddress& address) {
  UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return SystemError(errno, address.ToString());
  }
  SendWithoutDelay(fd.get());
  if (::connect(fd.get(), Generic(address), address.size) != 0 && errno != EINPROGRESS) {
    return SystemError(errno, address.ToString());
  }
  return fd;
}

Status ConnectOutcome(int fd) {
  int error_number = 0;
  socklen_t size = sizeof(error_number);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &size) != 0) {
    error_number = errno;
  }
  return error_number == 0 ? OkStatus() : Status(SystemError(error_number, "connect"));
}

Result<UniqueFd> AcceptOne(const UniqueFd& listener) {
  UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.is_open()) {
    SendWithoutDelay(fd.get());
    return fd;
  }
  // A caller that hung up again, or a signal: the next round sees what is left.
  const bool is_nothing = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (is_nothing) {
    return UniqueFd();
  }
  return SystemError(errno, "accept");
}

}  // namespace lockstep::runtime
