#include "trainer-runtime/ps/message_socket.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "trainer-runtime/rendezvous/poll_set.h"
#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {
namespace {

// Two ends of a connection on loopback.
struct Ends {
  Ends() {
    const UniqueFd listener = ListenOn("127.0.0.1", 0, 4).value();
    UniqueFd calling =
        StartConnect(ParseNumericAddress("127.0.0.1", BoundPort(listener).value()).value()).value();
    UniqueFd called = AcceptOne(listener).value();
    EXPECT_TRUE(called.is_open());
    caller = std::make_unique<MessageSocket>(std::move(calling));
    callee = std::make_unique<MessageSocket>(std::move(called));
  }

  // The next message, or nullopt where `budget` ends before it.
  std::optional<std::string> Await(std::size_t* budget) {
    std::optional<std::string> message;
    const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(10));
    while (!message.has_value() && *budget > 0 && !deadline.HasPassed(SteadyNow())) {
      PollSet poll;
      poll.Watch(callee->fd());
      poll.Wait(SteadyNow(), deadline.when());
      message = callee->Read(budget).value();
    }
    return message;
  }

  std::unique_ptr<MessageSocket> caller;
  std::unique_ptr<MessageSocket> callee;
};

int OptionOf(const MessageSocket& socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(socket.fd(), level, name, &value, &size), 0);
  return value;
}

TEST(MessageSocket, HostThatFallsSilentIsFound) {
  const Ends ends;

  EXPECT_NE(OptionOf(*ends.callee, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_GT(OptionOf(*ends.callee, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}

TEST(MessageSocket, RoundEndsWithItsBytesAndTheNextGoesOnInTheMiddle) {
  Ends ends;
  const std::string first(1000, 'a');
  const std::string second(1000, 'b');
  ASSERT_TRUE(ends.caller->Write(first).ok());
  ASSERT_TRUE(ends.caller->Write(second).ok());

  std::size_t budget = 1500;
  EXPECT_EQ(ends.Await(&budget), first);
  EXPECT_EQ(ends.Await(&budget), std::nullopt);
  EXPECT_EQ(budget, 0U);
  EXPECT_EQ(ends.callee->bytes_read(), 1500U);

  budget = 1500;
  EXPECT_EQ(ends.Await(&budget), second);
  EXPECT_EQ(ends.callee->bytes_read(), ends.caller->bytes_sent());
  EXPECT_EQ(ends.caller->bytes_written(), 2 * (1000 + sizeof(uint64_t)));
}

}  // namespace
}  // namespace lockstep::runtime
