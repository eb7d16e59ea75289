#include "operator/cli/run/run_log.h"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"
#include "operator/cli/terminal/console.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

// What people see of "noted", "informed" and "warned", which the file has each.
std::string Echo(bool is_verbose) {
  std::string folder = ::testing::TempDir() + "log-XXXXXX";
  LOCKSTEP_CHECK(::mkdtemp(folder.data()) != nullptr, folder);
  std::array<int, 2> fds{};
  LOCKSTEP_CHECK(::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) == 0, "pipe2");
  const UniqueFd read_end(fds[0]);
  const UniqueFd write_end(fds[1]);
  ConsoleOptions options;
  options.fd = write_end.get();
  Console console(options);
  {
    const auto log = RunLog::Open(folder + "/lockstep.log", is_verbose, &console).value();
    log->Note("noted", {});
    log->Info("informed");
    log->Warn("warned");
  }
  const std::string file = ReadFile(folder + "/lockstep.log", 4096).value();
  for (const char* word : {"noted", "informed", "warned"}) {
    EXPECT_THAT(file, HasSubstr(word));
  }
  std::filesystem::remove_all(folder);
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(read_end.get(), buffer.data(), buffer.size());
  return std::string(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
}

TEST(RunLog, WarningsAreEchoedAndVerboselyAllButWhatIsToldOtherwise) {
  EXPECT_EQ(Echo(false), "lockstep: warned\n");
  EXPECT_EQ(Echo(true), "lockstep: informed\nlockstep: warned\n");
}

// Opening it would wait for a reader, with the signals that end a run blocked.
TEST(RunLog, PipeIsRefused) {
  const std::string path = ::testing::TempDir() + "log-pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ConsoleOptions options;
  options.fd = STDERR_FILENO;
  Console console(options);
  const auto log = RunLog::Open(path, false, &console);
  std::filesystem::remove(path);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().message(), path + " is a pipe, expected a file");
}

}  // namespace
}  // namespace lockstep::control
