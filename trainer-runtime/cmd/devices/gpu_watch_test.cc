#include "trainer-runtime/cmd/devices/gpu_watch.h"

#include <cstdlib>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/testing/paths.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

class LastWarning final : public Logger {
 public:
  void Log(LogLevel level, std::string_view /*message*/, LogFields fields) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    count_ += level == LogLevel::kWarn ? 1 : 0;
    error_ = fields.begin()->value;
  }

  int count() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }

  std::string error() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  int count_ = 0;
  std::string error_;
};

// The management library's double, showing what one test says.
class GpuWatchTest : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("LOCKSTEP_TEST_NVML_DEVICES");
    ::unsetenv("LOCKSTEP_TEST_NVML_USE");
  }

  static void Show(const char* devices, const char* use) {
    ::setenv("LOCKSTEP_TEST_NVML_DEVICES", devices, 1);
    ::setenv("LOCKSTEP_TEST_NVML_USE", use, 1);
  }

  static GpuWatchOptions Options() {
    GpuWatchOptions options;
    options.nvml_library = BuiltFile("bin/liblockstep_test_nvml.so");
    options.interval = milliseconds(1);
    return options;
  }

  // The page once it has `text`, or as it is after far longer than a reading takes.
  static std::string PageWith(const GpuWatch& watch, const std::string& text) {
    const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(20));
    while (watch.Page().find(text) == std::string::npos && !deadline.HasPassed(SteadyNow())) {
      std::this_thread::yield();
    }
    return watch.Page();
  }

  LastWarning log_;
};

TEST_F(GpuWatchTest, ShowsHowEachGpuIsUsed) {
  Show("GPU-a@1,GPU-b@2", "85/17179869184");
  const GpuWatch watch(Options(), &log_);
  const std::string page = PageWith(watch, "GPU-b");
  EXPECT_THAT(page, HasSubstr("lockstep_gpu_busy_ratio{uuid=\"GPU-a\"} 0.85\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_gpu_memory_bytes{uuid=\"GPU-a\"} 17179869184\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_gpu_busy_ratio{uuid=\"GPU-b\"} 0\n"));
  EXPECT_EQ(log_.count(), 0);
}

TEST_F(GpuWatchTest, SliceHasMemoryAndNoBusyRatio) {
  Show("GPU-a@1/MIG-a1/MIG-a2", "85/1024");
  const GpuWatch watch(Options(), &log_);
  const std::string page = PageWith(watch, "MIG-a2");
  EXPECT_THAT(page, HasSubstr("lockstep_gpu_memory_bytes{uuid=\"MIG-a1\"} 1024\n"));
  EXPECT_THAT(page, Not(HasSubstr("busy_ratio")));
  EXPECT_EQ(log_.count(), 0);
}

TEST_F(GpuWatchTest, GpuThatIsLostIsWarnedOfOnceAndTheOthersAreShown) {
  Show("GPU-a@1,GPU-b@2", "lost,40/calls");
  const GpuWatch watch(Options(), &log_);
  std::string page = PageWith(watch, "GPU-b");
  const std::string first = page;
  const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(20));
  while (page == first && !deadline.HasPassed(SteadyNow())) {
    page = watch.Page();
  }
  ASSERT_NE(page, first) << "it is read again";
  EXPECT_THAT(page, HasSubstr("lockstep_gpu_busy_ratio{uuid=\"GPU-b\"} 0.4\n"));
  EXPECT_THAT(page, Not(HasSubstr("GPU-a")));
  EXPECT_EQ(log_.count(), 1);
  EXPECT_THAT(log_.error(), HasSubstr("utilization of GPU-a: GPU is lost"));
}

TEST_F(GpuWatchTest, DriverThatHangsShowsNothingAndKeepsNobody) {
  Show("GPU-a@1", "hang");
  GpuWatchOptions options = Options();
  options.patience = milliseconds(1);
  const TimePoint before = SteadyNow();
  {
    const GpuWatch watch(options, &log_);
    EXPECT_EQ(watch.Page(), "");
  }
  EXPECT_LT(SteadyNow() - before, std::chrono::seconds(10));
}

TEST_F(GpuWatchTest, WhatWasReadLongAgoIsNotShown) {
  Show("GPU-a@1,GPU-b@2", "lost,40/1024");  // the warning tells that it was read
  GpuWatchOptions options = Options();
  options.interval = std::chrono::hours(1);
  options.stale_after = Duration::zero();
  const GpuWatch watch(options, &log_);
  const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(20));
  while (log_.count() == 0 && !deadline.HasPassed(SteadyNow())) {
    std::this_thread::yield();
  }
  ASSERT_EQ(log_.count(), 1);
  EXPECT_EQ(watch.Page(), "");
}

TEST_F(GpuWatchTest, WithoutTheLibraryThereIsNothingAndNoWarning) {
  GpuWatchOptions options = Options();
  options.nvml_library = "liblockstep-no-such-library.so";
  const GpuWatch watch(options, &log_);
  EXPECT_EQ(watch.Page(), "");
  EXPECT_EQ(log_.count(), 0);
}

}  // namespace
}  // namespace lockstep::runtime
