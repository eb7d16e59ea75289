#include "operator/local/process.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "operator/local/refused_call_test_support.h"

namespace lockstep::control {
namespace {

// Runs a program to its end and holds what it printed.
class SpawnProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "spawn-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    request_.env = {{"PATH", "/usr/bin:/bin"}};
    request_.working_dir = folder_;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<ProcessExit> Run(std::vector<std::string> argv) {
    std::array<int, 2> fds{};
    LOCKSTEP_CHECK(::pipe2(fds.data(), O_CLOEXEC) == 0, "pipe2");
    const UniqueFd read_end(fds[0]);
    UniqueFd write_end(fds[1]);
    request_.argv = std::move(argv);
    request_.output_fd = write_end.get();
    auto child = SpawnProcess(request_);
    write_end.Reset();
    if (!child.ok()) {
      return std::move(child).error();
    }
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::read(read_end.get(), buffer.data(), buffer.size())) > 0) {
      output_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return Reap(child->pidfd.get());
  }

  std::string folder_;
  SpawnRequest request_;
  std::string output_;
};

TEST_F(SpawnProcessTest, ProgramEndsThenExitCodeAndOutputArrive) {
  const auto end = Run({"sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(end.ok()) << end.error().ToString();
  EXPECT_EQ(end->exit_code, 7);
  EXPECT_EQ(end->signal, 0);
  EXPECT_EQ(output_, "out\nerr\n");
}

TEST_F(SpawnProcessTest, SignalEndsProgramThenExitCodeIs128PlusSignal) {
  const auto end = Run({"sh", "-c", "kill -SEGV $$"});
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->exit_code, 139);
  EXPECT_EQ(end->signal, SIGSEGV);
}

TEST_F(SpawnProcessTest, ProgramLeadsItsOwnSessionInTheWorkingFolder) {
  ASSERT_TRUE(Run({"sh", "-c", "pwd; test $(ps -o sid= -p $$) -eq $$ && echo leads"}).ok());
  EXPECT_EQ(output_, folder_ + "\nleads\n");
}

TEST_F(SpawnProcessTest, UnknownProgramIsNotFound) {
  const auto end = Run({"no-such-program"});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(end.error().message(), "cannot start \"no-such-program\": no such file in PATH");
}

// What the kernel may do at any time when it has no descriptor left.
TEST_F(SpawnProcessTest, ProgramThatCannotBeWatchedIsAnErrorAndDoesNotRun) {
  if (!CanRefuseCalls()) {
    GTEST_SKIP() << "needs: permission to filter the calls of a child";
  }
  const auto spawn_unwatched = [this] {
    RefuseCall(SYS_pidfd_open, EMFILE);
    const auto end = Run({"sleep", "1000"});
    const bool is_gone = ::waitpid(-1, nullptr, WNOHANG) == -1;
    ::_exit(!end.ok() && end.error().code() == ErrorCode::kResourceExhausted &&
                    end.error().message() == "watching \"sleep\": Too many open files" && is_gone
                ? 0
                : 1);
  };
  EXPECT_EQ(ExitCodeOfChild(spawn_unwatched), 0);
}

}  // namespace
}  // namespace lockstep::control
