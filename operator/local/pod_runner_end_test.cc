#include <filesystem>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/io/file.h"
#include "operator/local/pod_guard.h"
#include "operator/local/pod_processes.h"
#include "operator/local/pod_runner.h"
#include "operator/local/pod_runner_test_support.h"
#include "operator/local/refused_call_test_support.h"

namespace lockstep::control {
namespace {

TEST_F(PodRunnerTest, EndOfTheClusterLeavesNothingBehind) {
  Create(ShellPod("pod", "trap '' TERM; sleep 1000 & echo $$ > leader; wait"));
  const pid_t leader = ParsePid(AwaitFile(HereFile("leader")));
  cluster_.reset();
  EXPECT_FALSE(IsAlive(leader));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child of the test is left";
}

// It has taken off even the mark that needs no environment.
TEST_F(PodRunnerTest, EndOfTheClusterReachesProcessesThatHideTheirOrigin) {
  RunToEnd(
      "env -i /usr/bin/prlimit --locks=unlimited /usr/bin/setsid /bin/sh -c "
      "'echo $$ > child.part; /bin/mv child.part child; exec /bin/sleep 1000' & "
      "while ! test -e child; do sleep 0.01; done; exit 0");
  const pid_t child = ParsePid(ReadText(HereFile("child")));
  ASSERT_GT(child, 0);
  ASSERT_TRUE(IsAlive(child));
  cluster_.reset();
  EXPECT_FALSE(IsAlive(child));
}

// A process that is stopped hears nothing: neither what it is told nor that it may end.
TEST_F(PodRunnerTest, FrozenGuardIsKilledAtTheEndAndThatIsSaid) {
  cluster_.reset();  // with its guard
  WarningLogger logger;
  PodRunnerOptions options;
  options.directory = folder_;
  options.guard_patience = milliseconds(50);
  auto cluster = PodRunner::Start(std::move(options), &logger).value();
  const pid_t guard = ChildNamed("lockstep-guard");
  ASSERT_GT(guard, 0);
  ASSERT_EQ(::kill(guard, SIGSTOP), 0);
  ASSERT_TRUE(Eventually([guard] { return IsStopped(guard); }));
  cluster.reset();
  EXPECT_FALSE(IsAlive(guard));
  EXPECT_THAT(logger.warnings(), ElementsAre(HasSubstr("the pod guard did not end by itself")));
}

TEST_F(PodRunnerTest, FrozenGuardThatTakesNothingInHoldsNobodyUp) {
  PodGuard guard = PodGuard::Start(ProcessSelector{}, "").value();
  ASSERT_EQ(::kill(guard.pid(), SIGSTOP), 0);
  ASSERT_TRUE(Eventually([&guard] { return IsStopped(guard.pid()); }));
  constexpr int kRecordsMax = 10'000;  // some hundreds fill the channel
  for (int i = 0; i < kRecordsMax && IsAlive(guard.pid()); ++i) {
    guard.Forget(1);
  }
  EXPECT_FALSE(IsAlive(guard.pid()));
  EXPECT_FALSE(guard.End(kPatience));
}

// What the kernel may refuse at any time: a number of watches, or memory for one.
TEST_F(PodRunnerTest, PodThatCannotBeWatchedIsRefusedAndNothingOfItRuns) {
  if (!CanRefuseCalls()) {
    GTEST_SKIP() << "needs: permission to filter the calls of a child";
  }
  const auto try_to_watch = [this] {
    RefuseCall(SYS_epoll_ctl, ENOMEM);
    const Status created = cluster_->CreatePod(ShellPod("pod", "sleep 1000"), SteadyNow());
    const bool is_gone = ::waitpid(-1, nullptr, WNOHANG) == -1;
    ::_exit(!created.ok() && created.error().code() == ErrorCode::kResourceExhausted &&
                    created.error().message() ==
                        "watching the pod's output: Cannot allocate memory" &&
                    cluster_->pods().empty() && cluster_->TakeEvents().empty() && is_gone
                ? 0
                : 1);
  };
  EXPECT_EQ(ExitCodeOfChild(try_to_watch), 0);
}

// What a SIGKILL of the whole program does: nobody is left to clean up but the guard.
TEST_F(PodRunnerTest, KilledProgramLeavesNothingBehind) {
  const std::string folder = MakeFolder();
  ASSERT_TRUE(WriteFileAtomically(folder + "/key", "secret").ok());
  const pid_t program = ::fork();
  if (program == 0) {
    PodRunnerOptions options;
    options.directory = folder;
    options.secret_file = folder + "/key";
    options.base_environment = {{"PATH", "/usr/bin:/bin"}};
    auto cluster = PodRunner::Start(std::move(options), logger_.get()).value();
    const Status created = cluster->CreatePod(
        ShellPod("pod",
                 std::string(kHiddenDaemon) +
                     "setsid sleep 1000 & echo $! > escaped; sleep 1000 & echo $! > child; "
                     "echo $$ > leader; wait"),
        SteadyNow());
    ::pause();
    ::_exit(created.ok() ? 0 : 1);
  }
  std::vector<pid_t> pids;
  for (const std::string name : {"escaped", "child", "leader", "hidden"}) {
    pids.push_back(ParsePid(AwaitFile(folder + "/pods/pod/" + name)));
    EXPECT_TRUE(IsAlive(pids.back())) << name;
  }
  ::kill(program, SIGKILL);
  for (const pid_t pid : pids) {
    EXPECT_TRUE(Eventually([pid] { return !IsAlive(pid); })) << pid;
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/key"));
  std::filesystem::remove_all(folder);
}

// Who ends the guard first has not won: another takes its place.
TEST_F(PodRunnerTest, KilledGuardHasASuccessorThatKnowsThePodsAndTheSecret) {
  const std::string folder = MakeFolder();
  ASSERT_TRUE(WriteFileAtomically(folder + "/key", "secret").ok());
  const pid_t program = ::fork();
  if (program == 0) {
    cluster_.release();  // the test's own
    WarningLogger logger;
    PodRunnerOptions options;
    options.directory = folder;
    options.secret_file = folder + "/key";
    options.base_environment = {{"PATH", "/usr/bin:/bin"}};
    auto cluster = PodRunner::Start(std::move(options), &logger).value();
    const Status created = cluster->CreatePod(
        ShellPod("pod", "sleep 1000 & echo $! > child; echo $$ > leader; wait"), SteadyNow());
    ::kill(ChildNamed("lockstep-guard"), SIGKILL);
    const bool is_told = Eventually([&] {
      cluster->Process(SteadyNow());
      return !logger.warnings().empty();
    });
    const Status ready = WriteFileAtomically(folder + "/ready",
                                             is_told ? logger.warnings().front() : "nothing said");
    ::pause();
    ::_exit(created.ok() && ready.ok() ? 0 : 1);
  }
  EXPECT_EQ(AwaitFile(folder + "/ready"),
            "the pod guard, the process that ends the pods if lockstep is killed, was itself "
            "killed; lockstep restarted it");
  std::vector<pid_t> pids;
  for (const std::string name : {"child", "leader"}) {
    pids.push_back(ParsePid(AwaitFile(folder + "/pods/pod/" + name)));
    EXPECT_TRUE(IsAlive(pids.back())) << name;
  }
  ::kill(program, SIGKILL);
  for (const pid_t pid : pids) {
    EXPECT_TRUE(Eventually([pid] { return !IsAlive(pid); })) << pid;
  }
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(folder + "/key"); }));
  for (const pid_t pid : pids) {
    ::kill(pid, SIGKILL);  // where the above did not
  }
  std::filesystem::remove_all(folder);
}

TEST_F(PodRunnerTest, GuardThatIsKilledAgainAndAgainIsGivenUpWithAWord) {
  cluster_.reset();
  WarningLogger logger;
  PodRunnerOptions options;
  options.directory = folder_;
  auto cluster = PodRunner::Start(std::move(options), &logger).value();
  constexpr std::size_t kKills = 10;
  for (std::size_t kill = 1; kill <= kKills; ++kill) {
    ::kill(ChildNamed("lockstep-guard"), SIGKILL);
    ASSERT_TRUE(Eventually([&] {
      cluster->Process(SteadyNow());
      return logger.warnings().size() == kill;
    })) << kill;
  }
  EXPECT_THAT(logger.warnings().back(), HasSubstr("is not restarted"));
}

// A run that has taken the folder over since has a secret of its own there. Where numbers of files
// are given again at once, the new one would have the old one's.
TEST_F(PodRunnerTest, SecretThatCameAfterwardsOutlivesAKilledProgram) {
  constexpr int kFilesMax = 1000;
  const std::string folder = MakeFolder();
  const std::string key = folder + "/key";
  ASSERT_TRUE(WriteFileInPlace(key, "of this run").ok());
  const uint64_t number = InodeOf(key);
  const pid_t program = ::fork();
  if (program == 0) {
    const PodGuard guard = PodGuard::Start(ProcessSelector{{}, "NONE=", 0, 0, {}}, key).value();
    const Status told = WriteFileAtomically(folder + "/guard", std::to_string(guard.pid()));
    ::pause();
    ::_exit(told.ok() ? 0 : 1);
  }
  const std::string guard = AwaitFile(folder + "/guard");
  ASSERT_TRUE(
      Eventually([&] { return ReadText("/proc/" + guard + "/comm") == "lockstep-guard\n"; }));
  // Of the numbers that are free the old one comes sooner or later, where it is given again.
  ::unlink(key.c_str());
  std::string later;
  for (int i = 0; i < kFilesMax && (later.empty() || InodeOf(later) != number); ++i) {
    later = folder + "/later-" + std::to_string(i);
    ASSERT_TRUE(WriteFileInPlace(later, "of a later run").ok());
  }
  std::filesystem::rename(later, key);
  ::kill(program, SIGKILL);
  EXPECT_TRUE(Eventually([&guard] { return !IsAlive(ParsePid(guard)); }));
  EXPECT_TRUE(std::filesystem::exists(key));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::control
