#include "trainer-runtime/supervisor/hang/watchdog.h"

#include <csignal>
#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace lockstep::runtime {
namespace {

class CountingLogger : public Logger {
 public:
  void Log(LogLevel level, std::string_view message, LogFields) override {
    warnings_ +=
        level == LogLevel::kWarn && message.find("cannot be observed") != message.npos ? 1 : 0;
  }

  int warnings() const { return warnings_; }

 private:
  int warnings_ = 0;
};

// A container whose /proc is hidden, or shows the processes of another namespace.
TEST(Watchdog, ProgramThatIsNotSeenDoesNotHangAndIsToldOfOnce) {
  std::string folder = testing::TempDir() + "lockstep-watchdog-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  CountingLogger logger;
  WatchdogOptions options;
  options.limit = std::chrono::seconds(1);
  options.names = {"rank 0"};
  options.logger = &logger;
  options.process_folder = folder;
  Watchdog watchdog(options);
  const TimePoint begin = SteadyNow();
  for (int look = 0; look < 200; ++look) {
    watchdog.Look(begin + look * std::chrono::milliseconds(50), {{pid, false, 0, 0}}, {});
  }
  EXPECT_FALSE(watchdog.ReasonFor(0).has_value()) << *watchdog.ReasonFor(0);
  EXPECT_EQ(logger.warnings(), 1);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace lockstep::runtime
