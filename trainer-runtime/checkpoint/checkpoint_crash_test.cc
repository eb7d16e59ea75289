// What kills and full disks leave behind.

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/base/io/unique_fd.h"
#include "common/base/prng.h"
#include "trainer-runtime/checkpoint/checkpoint_test_support.h"

namespace lockstep::runtime {
namespace {

constexpr int kKilledTimes = 200;
constexpr int kKilledTimesMax = 10 * kKilledTimes;
constexpr int kKilledInTheMiddle = kKilledTimes / 4;
constexpr std::size_t kValues = 200'000;  // 1.6 MB, so that most kills hit a save on any disk
constexpr uint64_t kKillDelayMaxMicros = 12'000;  // several saves

class CheckpointCrashTest : public CheckpointTest {
 protected:
  // Runs `body` in a child process; its value is the exit code.
  template <typename Body>
  static pid_t Fork(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(body());
    }
    return child;
  }

  static int Wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  // Saves step after step as epoch `epoch`; writes each step that is durable to `report`. The next
  // snapshot is made while one is saved: a kill meets a save, however slow the rest of this is.
  int SaveForever(int64_t epoch, int report) {
    const auto store = Open(Options());
    if (!store->Claim(Epoch(epoch), Incarnation(0)).ok()) {
      return 1;
    }
    int64_t step = NewestStep(store.get()) + 1;
    Snapshot snapshot = SnapshotAt(step, kValues);
    while (true) {
      store->SaveAsync(std::move(snapshot));
      snapshot = SnapshotAt(step + 1, kValues);
      if (!store->Flush(Soon()).ok() || ::write(report, &step, sizeof(step)) != sizeof(step)) {
        return 2;
      }
      ++step;
    }
  }

  // Lets the child live for a random while after its first word, then kills it. Returns the last
  // step it reported as durable.
  int64_t KillSometime(pid_t child, int report, Prng* prng) {
    int64_t durable = 0;
    EXPECT_EQ(::read(report, &durable, sizeof(durable)), ssize_t{sizeof(durable)});
    const timespec delay{0, static_cast<long>(1000 * prng->Below(kKillDelayMaxMicros))};
    ::ppoll(nullptr, 0, &delay, nullptr);
    ::kill(child, SIGKILL);
    const int status = Wait(child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << status;
    for (int64_t step = 0; ::read(report, &step, sizeof(step)) == sizeof(step);) {
      durable = step;
    }
    return durable;
  }
};

TEST_F(CheckpointCrashTest, KillsDuringSaveNeverLeaveAnUnreadableNewest) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  int in_the_middle = 0;
  int round = 0;
  // On a busy machine many kills meet a writer that waits for a core: then there are more of them.
  while (round < kKilledTimes || (in_the_middle < kKilledInTheMiddle && round < kKilledTimesMax)) {
    ++round;
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t child = Fork([&] { return SaveForever(round, writer.get()); });
    ASSERT_GT(child, 0);
    writer.Reset();
    const int64_t durable = KillSometime(child, reader.get(), &prng);

    log_.warnings.clear();
    const int64_t newest = NewestStep(Open(Options()).get());
    ASSERT_GE(newest, durable) << "round " << round << " lost a checkpoint that was durable";
    ASSERT_LE(newest, durable + 1);
    ASSERT_TRUE(log_.warnings.empty()) << log_.warnings.front();
    for (const std::string& name : Names()) {
      in_the_middle += name.rfind(".tmp-", 0) == 0 ? 1 : 0;
    }
  }
  EXPECT_GE(in_the_middle, kKilledInTheMiddle) << "the kills missed the saves";
  OpenWriter(round + 1);
  for (const std::string& name : Names()) {
    EXPECT_NE(name.rfind(".tmp-", 0), 0U) << "left behind: " << name;
  }
}

// Fills a file system of 256 kB that only the calling process sees.
bool EnterSmallDisk(const std::string& path) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("lockstep", path.c_str(), "tmpfs", 0, "size=256k") == 0;
}

TEST_F(CheckpointCrashTest, FullDiskIsAnErrorAndLeavesTheNewestWhole) {
  enum Exit { kGood, kCannotMount, kSaveFailed, kSaveWorked, kWrongCode, kNewestLost, kNoRecovery };

  const pid_t child = Fork([&]() -> int {
    if (!EnterSmallDisk(root_)) {
      return kCannotMount;
    }
    const auto store = OpenWriter();
    store->SaveAsync(SnapshotAt(1, 1000));
    if (!store->Flush(Soon()).ok()) {
      return kSaveFailed;
    }
    store->SaveAsync(SnapshotAt(2, 100'000));
    const Status full = store->Flush(Soon());
    if (full.ok()) {
      return kSaveWorked;
    }
    if (full.error().code() != ErrorCode::kResourceExhausted) {
      return kWrongCode;
    }
    if (NewestStep(store.get()) != 1 || Names().size() != 2) {
      return kNewestLost;
    }
    store->SaveAsync(SnapshotAt(3, 1000));
    return store->Flush(Soon()).ok() && NewestStep(store.get()) == 3 ? kGood : kNoRecovery;
  });
  const int status = Wait(child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotMount) {
    GTEST_SKIP() << "needs: permission to mount a small file system";
  }
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

// The same for everybody: a limit on file size stands in for the disk's end.
TEST_F(CheckpointCrashTest, RefusedWriteIsAnErrorAndLeavesTheNewestWhole) {
  SaveAndWait(OpenWriter(1).get(), 1);
  const pid_t child = Fork([&]() -> int {
    const rlimit small{4096, 4096};
    if (::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &small) != 0) {
      return 1;
    }
    const auto store = OpenWriter(2);
    store->SaveAsync(SnapshotAt(2, 100'000));
    return store->Flush(Soon()).ok() ? 2 : 0;
  });
  const int status = Wait(child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(NewestStep(Open(Options()).get()), 1);
  EXPECT_EQ(Names().size(), 2U);
}

}  // namespace
}  // namespace lockstep::runtime
