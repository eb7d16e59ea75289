#include "operator/local/pod_runner.h"

#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "common/base/io/file.h"
#include "operator/local/pod_processes.h"
#include "operator/local/pod_runner_test_support.h"

namespace lockstep::control {
namespace {

// "python3 train.py" means the file beside the manifest.
TEST_F(PodRunnerTest, ProgramsStartWhereTheManifestIs) {
  std::filesystem::create_directory(folder_ + "/beside");
  EXPECT_EQ(RunToEnd("test -d beside").exit_code, 0);
  kube::Pod elsewhere = ShellPod("elsewhere", "test -e ../beside");
  elsewhere.spec.container.working_dir = "beside";
  Create(elsewhere);
  EXPECT_EQ(Await("elsewhere", PodChange::kEnded).status.termination->exit_code, 0);
}

struct EndCase {
  const char* script;
  int exit_code;
  int signal;
  const char* reason;
  kube::PodPhase phase;
};

class LocalClusterEnds : public PodRunnerTest, public ::testing::WithParamInterface<EndCase> {};

TEST_P(LocalClusterEnds, AreReportedAsByAKubelet) {
  const EndCase& expected = GetParam();
  Create(ShellPod("pod", expected.script));
  const kube::Pod pod = Await("pod", PodChange::kEnded);
  EXPECT_EQ(pod.status.phase, expected.phase);
  ASSERT_TRUE(pod.status.termination.has_value());
  EXPECT_EQ(pod.status.termination->exit_code, expected.exit_code);
  EXPECT_EQ(pod.status.termination->signal, expected.signal);
  EXPECT_EQ(pod.status.termination->reason, expected.reason);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    LocalClusterEnds,
    ::testing::Values(EndCase{"exit 0", 0, 0, "Completed", kube::PodPhase::kSucceeded},
                      EndCase{"exit 1", 1, 0, "Error", kube::PodPhase::kFailed},
                      EndCase{"exit 126", 126, 0, "Error", kube::PodPhase::kFailed},
                      EndCase{"exit 127", 127, 0, "Error", kube::PodPhase::kFailed},
                      EndCase{"exit 137", 137, 0, "Error", kube::PodPhase::kFailed},
                      EndCase{"kill -KILL $$", 137, SIGKILL, "Error", kube::PodPhase::kFailed},
                      EndCase{"kill -TERM $$", 143, SIGTERM, "Error", kube::PodPhase::kFailed},
                      EndCase{"kill -ABRT $$", 134, SIGABRT, "Error", kube::PodPhase::kFailed}));

TEST_F(PodRunnerTest, MissingProgramIsAStartErrorWithExitCode127) {
  kube::Pod pod;
  pod.name = "pod";
  pod.spec.container.command = {"no-such-program", "--flag"};
  Create(pod);
  pod = Await("pod", PodChange::kEnded);
  EXPECT_EQ(pod.status.phase, kube::PodPhase::kFailed);
  EXPECT_EQ(pod.status.termination->exit_code, 127);
  EXPECT_EQ(pod.status.termination->reason, "StartError");
  EXPECT_EQ(pod.status.termination->message,
            "cannot start \"no-such-program\": no such file in PATH");
}

TEST_F(PodRunnerTest, FolderAsProgramIsAStartErrorWithExitCode126) {
  kube::Pod pod;
  pod.name = "pod";
  pod.spec.container.command = {"/"};
  Create(pod);
  pod = Await("pod", PodChange::kEnded);
  EXPECT_EQ(pod.status.termination->exit_code, 126);
  EXPECT_EQ(pod.status.termination->reason, "StartError");
}

TEST_F(PodRunnerTest, TerminationMessageFileIsReported) {
  const auto end = RunToEnd("echo noise; printf '{\"outcome\":1}' > $TERMINATION_FILE; exit 3");
  EXPECT_EQ(end.message, "{\"outcome\":1}");
}

TEST_F(PodRunnerTest, FailureWithoutMessageReportsTheLastLines) {
  EXPECT_EQ(RunToEnd("echo first; echo last; exit 3").message, "first\nlast\n");
}

TEST_F(PodRunnerTest, OutputGoesToTheLogAndLineByLineToTheEcho) {
  RunToEnd("echo one; echo two >&2; printf three");
  EXPECT_EQ(ReadText(PodFile("pod", "pod.log")), "one\ntwo\nthree");
  EXPECT_THAT(lines_, ElementsAre("pod: one", "pod: two", "pod: three"));
}

TEST_F(PodRunnerTest, PodThatClosesItsOutputRunsOn) {
  Create(ShellPod("pod", "exec >&- 2>&-; while ! test -e go; do sleep 0.01; done; exit 5"));
  // The closed output must not keep the descriptor readable: that would be a busy loop.
  EXPECT_TRUE(Eventually([this] {
    cluster_->Process(SteadyNow());
    pollfd entry{cluster_->fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 0;
  }));
  ASSERT_TRUE(WriteFileAtomically(HereFile("go"), "go").ok());
  EXPECT_EQ(Await("pod", PodChange::kEnded).status.termination->exit_code, 5);
}

TEST_F(PodRunnerTest, SigtermEndsAPodWithinItsGrace) {
  Create(ShellPod("pod", "trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done"));
  EXPECT_EQ(AwaitFile(PodFile("pod", "pod.log")), "ready\n");
  ASSERT_TRUE(cluster_->DeletePod("pod", kForever, SteadyNow()).ok());
  const kube::Pod pod = Await("pod", PodChange::kDeleted);
  EXPECT_EQ(pod.status.termination->exit_code, 9);
  EXPECT_TRUE(cluster_->pods().empty());
}

TEST_F(PodRunnerTest, PodThatIgnoresSigtermIsKilledAfterItsGrace) {
  Create(ShellPod("pod", "trap '' TERM; echo ready; while :; do sleep 1000; done"));
  AwaitFile(PodFile("pod", "pod.log"));
  const TimePoint asked = SteadyNow();
  ASSERT_TRUE(cluster_->DeletePod("pod", milliseconds(50), asked).ok());
  const kube::Pod pod = Await("pod", PodChange::kDeleted);
  EXPECT_EQ(pod.status.termination->signal, SIGKILL);
  EXPECT_GE(SteadyNow() - asked, milliseconds(50));
}

TEST_F(PodRunnerTest, ZeroGraceKillsAtOnceEvenAStoppedPod) {
  Create(ShellPod("pod", "trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done"));
  AwaitFile(PodFile("pod", "pod.log"));
  ASSERT_TRUE(cluster_->SignalPod("pod", SIGSTOP).ok());
  ASSERT_TRUE(cluster_->DeletePod("pod", Duration::zero(), SteadyNow()).ok());
  EXPECT_EQ(Await("pod", PodChange::kDeleted).status.termination->exit_code, 137);
}

TEST_F(PodRunnerTest, AStoppedPodIsNotGivenItsGrace) {
  Create(ShellPod("pod", "echo $$ > leader; echo ready; exec sleep 1000"));
  AwaitFile(PodFile("pod", "pod.log"));
  ASSERT_TRUE(cluster_->SignalPod("pod", SIGSTOP).ok());
  const pid_t leader = ParsePid(ReadText(HereFile("leader")));
  ASSERT_TRUE(Eventually([leader] { return IsStopped(leader); }));
  ASSERT_TRUE(cluster_->DeletePod("pod", std::chrono::hours(1), SteadyNow()).ok());
  EXPECT_EQ(Await("pod", PodChange::kEnded).status.termination->signal, SIGKILL);
}

TEST_F(PodRunnerTest, ShorterGraceTakesOver) {
  Create(ShellPod("pod", "trap '' TERM; echo ready; while :; do sleep 1000; done"));
  AwaitFile(PodFile("pod", "pod.log"));
  ASSERT_TRUE(cluster_->DeletePod("pod", kForever, SteadyNow()).ok());
  ASSERT_TRUE(cluster_->DeletePod("pod", Duration::zero(), SteadyNow()).ok());
  EXPECT_EQ(Await("pod", PodChange::kDeleted).status.termination->exit_code, 137);
}

TEST_F(PodRunnerTest, BackgroundProcessesEndWithTheirPod) {
  RunToEnd("sleep 1000 & echo $! > child; exit 0");
  const pid_t child = ParsePid(ReadText(HereFile("child")));
  ASSERT_GT(child, 0);
  EXPECT_FALSE(IsAlive(child));
}

TEST_F(PodRunnerTest, ProcessesThatLeftTheSessionEndWithTheirPod) {
  RunToEnd(
      "setsid sh -c 'echo $$ > child.part; mv child.part child; exec sleep 1000' & "
      "while ! test -e child; do sleep 0.01; done; exit 0");
  const pid_t child = ParsePid(ReadText(HereFile("child")));
  ASSERT_GT(child, 0);
  EXPECT_FALSE(IsAlive(child));
}

TEST_F(PodRunnerTest, DaemonsThatWipedTheirEnvironmentEndWithTheirPod) {
  RunToEnd(std::string(kHiddenDaemon) + "while ! test -e hidden; do sleep 0.01; done; exit 0");
  const pid_t hidden = ParsePid(ReadText(HereFile("hidden")));
  ASSERT_GT(hidden, 0);
  EXPECT_FALSE(IsAlive(hidden));
}

TEST_F(PodRunnerTest, DaemonsOfOtherPodsLiveOn) {
  Create(ShellPod("other", std::string(kHiddenDaemon) + "exec sleep 1000"));
  const pid_t hidden = ParsePid(AwaitFile(HereFile("hidden")));
  RunToEnd("exit 0");
  EXPECT_TRUE(IsAlive(hidden));
}

// The first pod's mark was how the tenth's began.
TEST_F(PodRunnerTest, EndOfTheFirstPodIsNotThatOfTheTenth) {
  for (int number = 1; number <= 10; ++number) {
    Create(ShellPod("pod-" + std::to_string(number),
                    number == 1 || number == 10 ? "exec sleep 1000" : "exit 0"));
  }
  const pid_t tenth = static_cast<pid_t>(cluster_->FindPod("pod-10")->status.pid);
  ASSERT_TRUE(Eventually(
      [tenth] { return ReadText("/proc/" + std::to_string(tenth) + "/comm") == "sleep\n"; }));
  ASSERT_TRUE(cluster_->DeletePod("pod-1", Duration::zero(), SteadyNow()).ok());
  Await("pod-1", PodChange::kDeleted);
  EXPECT_TRUE(IsAlive(tenth));
}

// A pass over /proc takes milliseconds, and many pods are killed at once at the end of a run.
TEST_F(PodRunnerTest, PodsThatAreKilledInOneTurnAreSweptTogether) {
  constexpr int kPods = 8;
  const auto name = [](int number) { return "pod-" + std::to_string(number); };
  for (int number = 0; number < kPods; ++number) {
    Create(ShellPod(name(number),
                    "setsid sh -c 'echo $$ > child.part" + std::to_string(number) +
                        "; mv child.part" + std::to_string(number) + " child" +
                        std::to_string(number) + "; exec sleep 1000' & wait"));
  }
  std::vector<pid_t> children;
  for (int number = 0; number < kPods; ++number) {
    children.push_back(ParsePid(AwaitFile(HereFile("child" + std::to_string(number)))));
  }
  const int64_t before = cluster_->sweep_count();
  for (int number = 0; number < kPods; ++number) {
    ASSERT_TRUE(cluster_->DeletePod(name(number), Duration::zero(), SteadyNow()).ok());
  }
  cluster_->Process(SteadyNow());
  EXPECT_EQ(cluster_->sweep_count(), before + 1);
  for (const pid_t child : children) {
    EXPECT_FALSE(IsAlive(child));
  }
}

TEST_F(PodRunnerTest, PodAboveItsMemoryLimitIsOutOfMemory) {
  kube::Pod pod = ShellPod("pod", "x=x; while :; do x=$x$x; done");
  pod.spec.container.limits.memory_bytes = 64 << 20;
  Create(pod);
  const auto end = *Await("pod", PodChange::kEnded).status.termination;
  EXPECT_EQ(end.reason, "OOMKilled");
  EXPECT_EQ(end.exit_code, 137);
  EXPECT_THAT(end.message, HasSubstr("the limit is 67108864"));
}

TEST_F(PodRunnerTest, MemoryOfProcessesThatLeftTheSessionCounts) {
  kube::Pod pod = ShellPod("pod", "setsid sh -c 'x=x; while :; do x=$x$x; done' & wait");
  pod.spec.container.limits.memory_bytes = 64 << 20;
  Create(pod);
  EXPECT_EQ(Await("pod", PodChange::kEnded).status.termination->reason, "OOMKilled");
}

TEST_F(PodRunnerTest, StopSignalReachesProcessesThatLeftTheSession) {
  Create(ShellPod("pod",
                  "setsid sh -c 'echo $$ > child.part; mv child.part child; exec sleep 1000' & "
                  "wait"));
  const pid_t child = ParsePid(AwaitFile(HereFile("child")));
  ASSERT_TRUE(cluster_->SignalPod("pod", SIGSTOP).ok());
  EXPECT_TRUE(Eventually([child] {
    const std::string stat = ReadText("/proc/" + std::to_string(child) + "/stat");
    return stat.find(") T ") != std::string::npos;
  }));
}

TEST_F(PodRunnerTest, ForcedExitEndsTheProgramWithThatCode) {
  if (!CanTraceChildren()) {
    GTEST_SKIP() << "needs: an x86-64 processor and permission to trace a child";
  }
  Create(ShellPod("pod", "trap '' TERM; echo ready; exec sleep 1000"));
  AwaitFile(PodFile("pod", "pod.log"));
  const Status forced = cluster_->ForceExit("pod", 42);
  ASSERT_TRUE(forced.ok()) << forced.error().ToString();
  const auto end = *Await("pod", PodChange::kEnded).status.termination;
  EXPECT_EQ(end.exit_code, 42);
  EXPECT_EQ(end.signal, 0);
}

TEST_F(PodRunnerTest, NameInUseIsRefusedUntilThePodIsDeleted) {
  RunToEnd("exit 0");
  const Status again = cluster_->CreatePod(ShellPod("pod", "exit 0"), SteadyNow());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(cluster_->DeletePod("pod", kForever, SteadyNow()).ok());
  Await("pod", PodChange::kDeleted);
  Create(ShellPod("pod", "exit 0"));
}

TEST_F(PodRunnerTest, NameThatLeavesTheRunFolderIsRefused) {
  EXPECT_EQ(cluster_->CreatePod(ShellPod("../pod", ""), SteadyNow()).error().code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(PodRunnerTest, PodIsFoundByItsNameUntilItIsDeleted) {
  Create(ShellPod("pod", "exit 0"));
  Create(ShellPod("other", "exec sleep 600"));
  ASSERT_NE(cluster_->FindPod("other"), nullptr);
  EXPECT_EQ(cluster_->FindPod("other")->name, "other");
  EXPECT_EQ(cluster_->FindPod("none"), nullptr);
  ASSERT_TRUE(cluster_->DeletePod("other", Duration::zero(), SteadyNow()).ok());
  Await("other", PodChange::kDeleted);
  EXPECT_EQ(cluster_->FindPod("other"), nullptr);
}

TEST_F(PodRunnerTest, UnknownPodIsNotFound) {
  EXPECT_EQ(cluster_->DeletePod("pod", kForever, SteadyNow()).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(cluster_->SignalPod("pod", SIGTERM).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::control
