#pragma once

#include <string>
#include <vector>

#include <sys/socket.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"

namespace lockstep::runtime {

// One IPv4 or IPv6 address with a port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // "127.0.0.1:2222", "[::1]:2222".
  std::string ToString() const;
  int port() const;
};

// The address of a numeric host, without asking anybody. Errors: kInvalidArgument for a name.
Result<SocketAddress> ParseNumericAddress(const std::string& host, int port);

// Every address that a name resolves to. Blocks on the resolver. Errors: kUnavailable.
Result<std::vector<SocketAddress>> ResolveName(const std::string& host, int port);

// A listening, non-blocking TCP socket that may reuse the port of a process that just ended.
// Errors: kInvalidArgument (not a numeric address), kAlreadyExists (port taken), kIo; each names
// the address.
Result<UniqueFd> ListenOn(const std::string& host, int port, int backlog);

// The port that a socket is bound to. Errors: kIo.
Result<int> BoundPort(const UniqueFd& socket);

// Starts a non-blocking connection without delayed sends; poll for writing tells when it stands.
// Errors: by errno, when it failed at once.
Result<UniqueFd> StartConnect(const SocketAddress& address);

// How a connection started by StartConnect went. Errors: by errno.
Status ConnectOutcome(int fd);

// The next waiting connection, set up as by StartConnect; empty when none waits.
// Errors: kResourceExhausted (no descriptors left), kIo.
Result<UniqueFd> AcceptOne(const UniqueFd& listener);

}  // namespace lockstep::runtime
