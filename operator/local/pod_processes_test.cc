#include "operator/local/pod_processes.h"

#include <chrono>
#include <csignal>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "operator/local/pod_runner_test_support.h"

namespace lockstep::control {
namespace {

// A child whose main thread has ended and whose other one stays, as a program of many threads looks
// for a moment when it is killed. It leads a session.
pid_t StartWithoutMainThread() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    std::thread other([] {
      while (true) {
        std::this_thread::sleep_for(std::chrono::hours(1));
      }
    });
    ::syscall(SYS_exit, 0);
  }
  return child;
}

// Such a process still holds its ports, which its successor needs.
TEST(KillMatching, GoesOnUntilTheLastThreadHasEnded) {
  const pid_t child = StartWithoutMainThread();
  ASSERT_GT(child, 0);
  EXPECT_TRUE(Eventually([child] {
    const auto stat = ReadProcessStat(child);
    return stat && stat->state == 'Z' && stat->threads == 2;
  }));
  ProcessSelector selector;
  selector.sessions = {child};
  EXPECT_GE(KillMatching({selector}, 50), 1);  // again, where it takes long to end
  EXPECT_FALSE(IsAlive(child));
  ::kill(child, SIGKILL);  // where the above did not
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace lockstep::control
