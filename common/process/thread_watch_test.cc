#include "common/process/thread_watch.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr Duration kBetween = milliseconds(250);

ThreadSample Sample(char state, int ran_ms, int waited_ms, pid_t thread = 7) {
  return {thread, state, milliseconds(ran_ms), milliseconds(waited_ms)};
}

Sight Judge(const ThreadSample& before, const ThreadSample& now, bool is_host_pressed = false) {
  return JudgeThreads({before}, {now}, kBetween, is_host_pressed);
}

TEST(JudgeThreads, OneThatWantsToRunAndGetsNoCoreIsStarved) {
  EXPECT_EQ(Judge(Sample('R', 10, 40), Sample('R', 20, 40)), Sight::kStarved)
      << "what it waits now the kernel adds when it gets a core";
  EXPECT_EQ(Judge(Sample('S', 10, 40), Sample('S', 20, 200)), Sight::kStarved)
      << "it sleeps at this moment, and has waited most of the time";
  EXPECT_EQ(Judge(Sample('R', 10, 40), Sample('R', 200, 40)), Sight::kRunning) << "it spins";
  EXPECT_EQ(Judge(Sample('S', 10, 40), Sample('S', 12, 41)), Sight::kRunning) << "it sleeps";
}

TEST(JudgeThreads, TheFirstLookBelievesOneThatWantsToRun) {
  EXPECT_EQ(JudgeThreads({}, {Sample('R', 10, 40)}, {}, false), Sight::kStarved);
  EXPECT_EQ(JudgeThreads({}, {Sample('S', 10, 40)}, {}, false), Sight::kRunning);
}

TEST(JudgeThreads, AKernelThatTellsNoTimesIsAskedForTheStateAlone) {
  const ThreadSample runnable{7, 'R', {}, {}};
  const ThreadSample asleep{7, 'S', {}, {}};
  EXPECT_EQ(Judge(runnable, runnable), Sight::kStarved);
  EXPECT_EQ(Judge(asleep, asleep), Sight::kRunning);
}

TEST(JudgeThreads, StoppedIsWhoHasNoThreadLeftThatCouldSpeak) {
  EXPECT_EQ(Judge(Sample('S', 1, 1), Sample('T', 1, 1)), Sight::kStopped);
  EXPECT_EQ(Judge(Sample('S', 1, 1), Sample('t', 1, 1)), Sight::kStopped);
  EXPECT_EQ(JudgeThreads({}, {Sample('Z', 1, 1, 7), Sample('S', 1, 1, 8)}, {}, false),
            Sight::kRunning);
}

TEST(JudgeThreads, OneOfManyThreadsThatStarvesIsEnough) {
  EXPECT_EQ(JudgeThreads({Sample('S', 1, 1, 7), Sample('R', 1, 1, 8)},
                         {Sample('S', 1, 1, 7), Sample('R', 1, 1, 8)},
                         kBetween,
                         false),
            Sight::kStarved);
}

TEST(JudgeThreads, PressureStrainsWhoSleepsAndExcusesNobodyWhoIsStopped) {
  EXPECT_EQ(Judge(Sample('S', 1, 1), Sample('S', 1, 1), true), Sight::kStrained);
  EXPECT_EQ(Judge(Sample('S', 1, 1), Sample('T', 1, 1), true), Sight::kStopped);
}

TEST(JudgeThreads, NothingIsKnownOfAThreadThatIsNotThere) {
  EXPECT_EQ(JudgeThreads({Sample('S', 1, 1)}, {}, kBetween, true), Sight::kUnseen);
}

TEST(CpuPressure, IsThePartOfTheLastTenSeconds) {
  EXPECT_EQ(CpuPressure("some avg10=93.25 avg60=1.42 avg300=16.53 total=184\nfull avg10=0.00"),
            93.25);
  EXPECT_EQ(CpuPressure("full avg10=93.25"), 0);
  EXPECT_EQ(CpuPressure(""), 0);
}

// A folder like /proc, in which thread 7 lives.
class ThreadWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "thread-watch-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  void WriteThread(const std::string& folder, char state, const std::string& schedstat) const {
    Write(folder + "/stat",
          "7 (a (b) c) " + std::string(1, state) +
              " 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    Write(folder + "/schedstat", schedstat);
  }

  std::string root_;
  TimePoint now_{std::chrono::seconds(100)};
};

TEST_F(ThreadWatchTest, TwoLooksShowAThreadThatDoesNotGetACore) {
  ThreadWatch watch(root_);
  WriteThread("/proc/7", 'S', "1000000 5000000 9\n");
  EXPECT_EQ(watch.LookAtThread(7, now_), Sight::kRunning);
  WriteThread("/proc/7", 'S', "1000000 405000000 9\n");
  EXPECT_EQ(watch.LookAtThread(7, now_ + milliseconds(500)), Sight::kStarved);
  EXPECT_EQ(watch.LookAtThread(7, now_ + std::chrono::seconds(60)), Sight::kRunning)
      << "what was seen a minute ago says nothing of now";
}

TEST_F(ThreadWatchTest, AThreadThatIsNotThereIsUnseen) {
  EXPECT_EQ(ThreadWatch(root_).LookAtThread(8, now_), Sight::kUnseen);
  EXPECT_EQ(ThreadWatch(root_).LookAtProcess(8, now_), Sight::kUnseen);
}

TEST_F(ThreadWatchTest, TheContainersPressureCountsBeforeTheHosts) {
  WriteThread("/proc/7", 'S', "1 1 1\n");
  Write("/proc/pressure/cpu", "some avg10=95.00 avg60=0\n");
  EXPECT_EQ(ThreadWatch(root_).LookAtThread(7, now_), Sight::kStrained);
  Write("/sys/fs/cgroup/cpu.pressure", "some avg10=5.00 avg60=0\n");
  EXPECT_EQ(ThreadWatch(root_).LookAtThread(7, now_), Sight::kRunning);
}

TEST(ThreadWatch, SeesThatAProcessOfThisMachineIsStopped) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(ThreadWatch().LookAtProcess(child, SteadyNow()), Sight::kStopped);
  EXPECT_EQ(ThreadWatch().LookAtThread(child, SteadyNow()), Sight::kStopped);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace lockstep
