#include "operator/local/port_use.h"

#include <string>
#include <unistd.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/io/unique_fd.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A server at a port that the kernel has chosen.
struct Server {
  explicit Server(const std::string& address)
      : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
    socklen_t size = sizeof where;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), size), 0);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&where), &size);
    port = ntohs(where.sin_port);
  }

  UniqueFd fd;
  int port = 0;
};

TEST(CheckFree, NamesThePlaceAndTheProcessThatHasIt) {
  for (const char* const address : {"127.83.7.2", "0.0.0.0"}) {
    const Server server(address);
    const Status free = CheckFree({"127.83.7.2", server.port});
    ASSERT_FALSE(free.ok()) << address;
    EXPECT_EQ(free.error().code(), ErrorCode::kAlreadyExists);
    EXPECT_THAT(free.error().message(),
                HasSubstr("127.83.7.2:" + std::to_string(server.port) + " is in use by process " +
                          std::to_string(::getpid()) + " ("));
  }
}

TEST(CheckFree, AnotherAddressIsInTheWayOfWhoBindsAllOnly) {
  const Server server("127.83.7.3");
  EXPECT_TRUE(CheckFree({"127.83.7.2", server.port}).ok());
  EXPECT_FALSE(CheckFree({"127.83.7.2", server.port, /*is_everywhere=*/true}).ok());
}

TEST(CheckFree, PortIsFreeAgainWhenItsServerIsGone) {
  Server server("127.83.7.2");
  server.fd.Reset();
  EXPECT_TRUE(CheckFree({"127.83.7.2", server.port}).ok());
}

TEST(ParseSockets, TakesThoseWithAProcess) {
  const auto sockets = ParseSockets(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 0207537F:2F13 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
      "4711 1 0000000000000000 100 0 0 10 0\n"
      "   1: 0207537F:2F13 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0        0 "
      "0 3 0000000000000000\n"
      "   2: cut short\n");
  ASSERT_EQ(sockets.size(), 1U);
  EXPECT_EQ(sockets[0].address, "0207537F");
  EXPECT_EQ(sockets[0].port, 12051);
  EXPECT_TRUE(sockets[0].listens);
  EXPECT_EQ(sockets[0].inode, 4711U);
  EXPECT_THAT(ParseSockets(""), IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
