#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/status/termination_message.h"
#include "common/process/process_stat.h"
#include "trainer-runtime/supervisor/process/supervised_signals.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

inline ProcessStat StatOf(pid_t pid, pid_t parent, pid_t group) {
  ProcessStat stat;
  stat.pid = pid;
  stat.parent = parent;
  stat.group = group;
  return stat;
}

// Runs Supervise in a process of its own, as in life, with its outputs in one pipe.
class SupervisorTest : public testing::Test {
 protected:
  static constexpr std::size_t kFileMax = 1 << 20;

  void SetUp() override {
    std::string pattern = testing::TempDir() + "lockstep-supervisor-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    options_.termination_message_file = directory_ + "/termination";
    options_.grace = std::chrono::seconds(30);
    options_.logger = logger_.get();
    UseProcesses(1);
  }

  void TearDown() override {
    if (supervisor_ > 0) {
      ::kill(supervisor_, SIGKILL);
      ::waitpid(supervisor_, nullptr, 0);
    }
    std::filesystem::remove_all(directory_);
  }

  // `count` ranks with prefixes "[rank N] " and RANK in their environment.
  void UseProcesses(int count) {
    options_.processes.clear();
    for (int rank = 0; rank < count; ++rank) {
      SupervisedProcess process;
      process.environment = {{"PATH", "/usr/bin:/bin"}, {"RANK", std::to_string(rank)}};
      process.prefix = "[rank " + std::to_string(rank) + "] ";
      process.rank = rank;
      options_.processes.push_back(std::move(process));
    }
  }

  void UseScript(const std::string& script) { options_.command = {"sh", "-c", script}; }

  void Start() {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = UniqueFd(ends[0]);
    const UniqueFd writer(ends[1]);
    options_.output_fd = writer.get();
    options_.error_fd = writer.get();
    BlockSupervisedSignals();  // so that a signal sent at once waits for the supervisor
    supervisor_ = ::fork();
    ASSERT_GE(supervisor_, 0);
    if (supervisor_ == 0) {
      output_.Reset();
      ::_exit(Supervise(options_));
    }
  }

  // Reads until the output holds `text`; fails at the end of the output.
  void AwaitOutput(const std::string& text) {
    while (seen_.find(text) == std::string::npos) {
      ASSERT_TRUE(ReadSome()) << "the output ended without \"" << text << "\": " << seen_;
    }
  }

  // Waits until the supervisor, whose log is the file "log" of the folder, has said `text`.
  void AwaitLog(const std::string& text) {
    const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(60));
    for (;; ::poll(nullptr, 0, 1)) {
      const Result<std::string> log = ReadFile(directory_ + "/log", kFileMax);
      if (log.ok() && log->find(text) != std::string::npos) {
        return;
      }
      ASSERT_FALSE(deadline.HasPassed(SteadyNow())) << "the log never had \"" << text << '"';
    }
  }

  // Waits until a writer of the output would block. How many bytes that takes depends on how they
  // were written: a pipe holds pages, and not all of them are full.
  void AwaitFullOutput() {
    const std::string path = "/proc/self/fd/" + std::to_string(output_.get());
    const UniqueFd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(writer.is_open());
    const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(60));
    for (pollfd entry{writer.get(), POLLOUT, 0}; ::poll(&entry, 1, 0) > 0;) {
      ASSERT_FALSE(deadline.HasPassed(SteadyNow()))
          << "the pipe of the output does not become full";
      ::poll(nullptr, 0, 1);
    }
  }

  void Signal(int signal) { ::kill(supervisor_, signal); }

  // Waits until nothing of the process runs, which the supervisor need not have noticed.
  void AwaitEnd(pid_t pid) {
    const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(60));
    for (;; ::poll(nullptr, 0, 1)) {
      const std::optional<ProcessStat> stat = ReadProcessStat(pid);
      if (!stat.has_value() || HasEnded(*stat)) {
        return;
      }
      ASSERT_FALSE(deadline.HasPassed(SteadyNow())) << "process " << pid << " does not end in time";
    }
  }

  // Waits for the end. Returns the exit code; `seen_` holds the whole output.
  int Finish() {
    while (ReadSome()) {
    }
    int status = 0;
    EXPECT_EQ(::waitpid(supervisor_, &status, 0), supervisor_);
    supervisor_ = 0;
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return WEXITSTATUS(status);
  }

  int Run() {
    Start();
    return Finish();
  }

  // The output's lines, sorted.
  std::vector<std::string> SortedLines() const {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < seen_.size();) {
      const std::size_t end = std::min(seen_.find('\n', at), seen_.size());
      lines.push_back(seen_.substr(at, end - at));
      at = end + 1;
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  TerminationMessage Message() const {
    const Result<std::string> text = ReadFile(options_.termination_message_file, kFileMax);
    EXPECT_TRUE(text.ok());
    const Result<TerminationMessage> message = DecodeTerminationMessage(text.value());
    EXPECT_TRUE(message.ok()) << *text;
    return message.value();
  }

  // What the rank's script has written to `RANK.pid` in the folder.
  std::string PidOf(int rank) const {
    const Result<std::string> text =
        ReadFile(directory_ + "/" + std::to_string(rank) + ".pid", kFileMax);
    EXPECT_TRUE(text.ok());
    return text.value().substr(0, text->find('\n'));
  }

  // Whether a process runs: it exists and is no zombie.
  static bool IsRunning(pid_t pid) {
    const Result<std::string> stat = ReadFile("/proc/" + std::to_string(pid) + "/stat", kFileMax);
    return stat.ok() && stat->find(") Z ") == std::string::npos;
  }

  bool ReadSome() {
    char block[4096];
    const ssize_t count = ::read(output_.get(), block, sizeof(block));
    if (count > 0) {
      seen_.append(block, static_cast<std::size_t>(count));
    }
    return count > 0;
  }

  std::string directory_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  SuperviseOptions options_;
  pid_t supervisor_ = 0;
  UniqueFd output_;
  std::string seen_;
};

}  // namespace lockstep::runtime
