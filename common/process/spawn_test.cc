#include "common/process/spawn.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "common/base/check.h"
#include "common/base/io/unique_fd.h"

namespace lockstep {
namespace {

// Runs a program to its end and holds what it printed.
class SpawnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "spawn-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    options_.environment = {{"PATH", "/usr/bin:/bin"}};
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Its wait status.
  Result<int> Run(const std::string& program, std::vector<std::string> arguments) {
    std::array<int, 2> fds{};
    LOCKSTEP_CHECK(::pipe2(fds.data(), O_CLOEXEC) == 0, "pipe2");
    const UniqueFd read_end(fds[0]);
    UniqueFd write_end(fds[1]);
    options_.program = program;
    options_.arguments = std::move(arguments);
    options_.output_fd = write_end.get();
    options_.error_fd = write_end.get();
    const Result<pid_t> child = Spawn(options_);
    write_end.Reset();
    if (!child.ok()) {
      return child.error();
    }
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::read(read_end.get(), buffer.data(), buffer.size())) > 0) {
      output_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    int status = 0;
    LOCKSTEP_CHECK(::waitpid(*child, &status, 0) == *child, "waitpid");
    return status;
  }

  Result<int> RunShell(const std::string& script) { return Run("/bin/sh", {"sh", "-c", script}); }

  std::string Write(const std::string& name, const std::string& text) {
    namespace fs = std::filesystem;
    std::ofstream(folder_ + "/" + name) << text;
    fs::permissions(folder_ + "/" + name, fs::perms::owner_all);
    return folder_ + "/" + name;
  }

  std::string folder_;
  SpawnOptions options_;
  std::string output_;
};

TEST_F(SpawnTest, EnvironmentIsExactlyTheOneGiven) {
  options_.environment["GREETING"] = "two words";
  ASSERT_TRUE(Run("/usr/bin/env", {"env"}).ok());
  EXPECT_EQ(output_, "GREETING=two words\nPATH=/usr/bin:/bin\n");
}

TEST_F(SpawnTest, ProgramLeadsAGroupAndWhereAskedASession) {
  const std::string script =
      "test $(ps -o pgid= -p $$) -eq $$ && echo group; "
      "test $(ps -o sid= -p $$) -eq $$ && echo session; true";
  ASSERT_TRUE(RunShell(script).ok());
  EXPECT_EQ(output_, "group\n");
  output_.clear();
  options_.leads_session = true;
  ASSERT_TRUE(RunShell(script).ok());
  EXPECT_EQ(output_, "group\nsession\n");
}

TEST_F(SpawnTest, OpenDescriptorsOfTheParentStayThere) {
  const UniqueFd inheritable(::dup(STDERR_FILENO));
  const std::string number = std::to_string(inheritable.get());
  ASSERT_TRUE(RunShell("test -e /proc/$$/fd/" + number + " || echo closed").ok());
  EXPECT_EQ(output_, "closed\n");
}

TEST_F(SpawnTest, BlockedAndIgnoredSignalsAreDefaultsInTheChild) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  const auto status = RunShell("kill -USR1 $$; echo survived");
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGUSR1) << output_;
}

TEST_F(SpawnTest, WorkingDirectoryIsEnteredOrNamed) {
  options_.working_directory = folder_;
  ASSERT_TRUE(RunShell("pwd").ok());
  EXPECT_EQ(output_, folder_ + "\n");
  options_.working_directory = folder_ + "/gone";
  const auto missing = RunShell("true");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(missing.error().message().find(folder_ + "/gone"), std::string::npos);
}

TEST_F(SpawnTest, OomScoreIsAdjustedWhereAsked) {
  options_.oom_score_adjustment = 500;
  ASSERT_TRUE(RunShell("cat /proc/self/oom_score_adj").ok());
  EXPECT_EQ(output_, "500\n");
}

TEST_F(SpawnTest, LineageMarkIsInheritedThroughSessionsAndEmptyEnvironments) {
  options_.lineage_mark = 12345678;
  ASSERT_TRUE(RunShell("env -i /usr/bin/setsid -w /bin/sh -c "
                       "'/bin/grep \"Max file locks\" /proc/self/limits'")
                  .ok());
  EXPECT_NE(output_.find(" 12345678 "), std::string::npos) << output_;
}

TEST_F(SpawnTest, WhatCannotBeExecutedSaysWhy) {
  const auto script = Run(Write("script", "#!/no/such/interpreter\n"), {"script"});
  EXPECT_EQ(script.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(script.error().ToString(),
            "cannot start \"script\": the file, or the interpreter that it names, does not exist");
  const auto text = Run(Write("text", "hello\n"), {"text"});
  EXPECT_EQ(text.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Run(folder_, {"folder"}).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(SpawnTest, TextThatTheKernelDoesNotTakeIsNamedWithItsBytes) {
  const auto problem = [this](const std::vector<std::string>& arguments) {
    return Run("/bin/true", arguments).error().ToString();
  };
  options_.environment["FITS"] = std::string(131066, 'v');
  EXPECT_TRUE(Run("/bin/true", {"true", std::string(131071, 'w')}).ok());
  EXPECT_EQ(problem({"true", std::string(131072, 'w')}),
            "cannot start \"true\": argument 1 has 131072 bytes, but Linux accepts at most 131071");
  options_.environment["LONG"] = std::string(204800, 'v');
  EXPECT_EQ(problem({"true"}),
            "cannot start \"true\": environment variable LONG has 204805 bytes with its name, but "
            "Linux accepts at most 131071");
  options_.environment.clear();
  for (int i = 0; i < 70; ++i) {  // above the 6 MiB that no ulimit -s raises it over
    options_.environment["V" + std::to_string(10 + i)] = std::string(100'000, 'v');
  }
  EXPECT_EQ(problem({"true"}),
            "cannot start \"true\": its arguments and environment variables have 7000355 bytes "
            "together, more than this system accepts (a quarter of ulimit -s)");
}

}  // namespace
}  // namespace lockstep
