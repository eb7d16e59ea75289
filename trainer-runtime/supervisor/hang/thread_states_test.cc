#include "trainer-runtime/supervisor/hang/thread_states.h"

#include <csignal>
#include <poll.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "common/base/time.h"

namespace lockstep::runtime {
namespace {

TEST(ReadThreadStates, BeginsWithTheMainThreadAndHasABound) {
  std::stop_source stop;
  std::jthread first([token = stop.get_token()] {
    while (!token.stop_requested()) {
      ::poll(nullptr, 0, 1);
    }
  });
  const std::vector<ThreadState> states = ReadThreadStates(::getpid(), 1000);
  const std::vector<ThreadState> one = ReadThreadStates(::getpid(), 1);
  stop.request_stop();

  ASSERT_GE(states.size(), 2U);
  EXPECT_EQ(states[0].thread, ::getpid());
  EXPECT_EQ(states[0].state, 'R');
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].thread, ::getpid());
}

TEST(ReadThreadStates, IsEmptyWhereTheProcessIsGone) {
  EXPECT_TRUE(ReadThreadStates(0, 10).empty());
}

TEST(DescribeThreadState, SaysWhatTheKernelTells) {
  EXPECT_EQ(DescribeThreadState({1, "a", 'S', "do_poll"}), "sleeps in do_poll");
  EXPECT_EQ(DescribeThreadState({1, "a", 'S', ""}), "sleeps");
  EXPECT_EQ(DescribeThreadState({1, "a", 'D', "nfs_wait"}), "waits for a device in nfs_wait");
  EXPECT_EQ(DescribeThreadState({1, "a", 'T', "do_signal_stop"}), "is stopped by a signal");
  EXPECT_EQ(DescribeThreadState({1, "a", 'R', ""}), "runs");
}

TEST(CatchesSignal, IsTrueForAHandlerOnly) {
  EXPECT_FALSE(CatchesSignal(::getpid(), SIGUSR2));
  ::signal(SIGUSR2, SIG_IGN);
  EXPECT_FALSE(CatchesSignal(::getpid(), SIGUSR2));
  ::signal(SIGUSR2, [](int) {});
  EXPECT_TRUE(CatchesSignal(::getpid(), SIGUSR2));
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_FALSE(CatchesSignal(::getpid(), SIGUSR2));
  EXPECT_FALSE(CatchesSignal(0, SIGUSR2));
}

}  // namespace
}  // namespace lockstep::runtime
