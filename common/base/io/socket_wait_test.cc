#include "common/base/io/socket_wait.h"

#include <array>
#include <cerrno>
#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "common/base/io/unique_fd.h"

namespace lockstep {
namespace {

TEST(WouldBlock, OnlyWhatTryingAgainCures) {
  EXPECT_TRUE(WouldBlock(EAGAIN));
  EXPECT_TRUE(WouldBlock(EINTR));
  EXPECT_FALSE(WouldBlock(ECONNRESET));
}

TEST(WaitForSocket, EndsWithAByteAnEndOrTheDeadline) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const UniqueFd near(pair[0]);
  UniqueFd far(pair[1]);
  const Deadline soon = Deadline::After(SteadyNow(), std::chrono::milliseconds(1));
  const Deadline late = Deadline::After(SteadyNow(), std::chrono::seconds(30));
  EXPECT_EQ(WaitForSocket(near.get(), POLLIN, soon).error().code(), ErrorCode::kTimeout);
  EXPECT_TRUE(WaitForSocket(near.get(), POLLOUT, late).ok());
  far.Reset();
  EXPECT_TRUE(WaitForSocket(near.get(), POLLIN, late).ok());
}

}  // namespace
}  // namespace lockstep
