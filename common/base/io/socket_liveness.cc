#include "common/base/io/socket_liveness.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace lockstep {

void SetLivenessOptions(int socket) {
  struct Option {
    int level;
    int name;
    int value;
  };

  constexpr Option kOptions[] = {
      {SOL_SOCKET, SO_KEEPALIVE, 1},
      {IPPROTO_TCP, TCP_KEEPIDLE, 15},
      {IPPROTO_TCP, TCP_KEEPINTVL, 5},
      {IPPROTO_TCP, TCP_KEEPCNT, 3},
      {IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000},
      {IPPROTO_TCP, TCP_NODELAY, 1},
  };
  for (const Option& option : kOptions) {
    // A refusal leaves the phase time-outs, which are there anyway.
    ::setsockopt(socket, option.level, option.name, &option.value, sizeof option.value);
  }
}

}  // namespace lockstep
