#include "operator/local/pod_runner.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "common/base/file.h"
#include "operator/local/pod_guard.h"
#include "operator/local/process_table.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kPatience = seconds(20);  // for a loaded machine; nothing here takes a second
constexpr Duration kForever = std::chrono::hours(1);

std::string MakeFolder() {
  std::string pattern = ::testing::TempDir() + "cluster-XXXXXX";
  LOCKSTEP_CHECK(::mkdtemp(pattern.data()) != nullptr, pattern);
  return pattern;
}

std::string ReadText(const std::string& path) {
  const auto text = ReadFile(path, 1 << 20);
  return text.ok() ? *text : "";
}

pid_t ParsePid(const std::string& text) {
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

// Whether the process is alive; a zombie that waits for its reaper is not.
bool IsAlive(pid_t pid) {
  for (const ProcessEntry& entry : ReadProcessTable()) {
    if (entry.pid == pid) {
      return !entry.is_zombie;
    }
  }
  return false;
}

// Waits until `condition` holds; looks every few milliseconds for things that send no event.
template <typename Condition>
bool Eventually(Condition condition) {
  const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
  while (!condition()) {
    if (deadline.HasPassed(SteadyNow())) {
      return false;
    }
    ::poll(nullptr, 0, 5);
  }
  return true;
}

// Whether exits can be forced here at all; a container's seccomp filter may forbid tracing. Asks
// the kernel itself, so that a defect of ours is a failure and never a skip.
bool CanTraceChildren() {
#if defined(__x86_64__)
  const pid_t child = ::fork();
  LOCKSTEP_CHECK(child >= 0, "fork");
  if (child == 0) {
    for (;;) {
      ::pause();
    }
  }
  const bool can_trace = ::ptrace(PTRACE_SEIZE, child, nullptr, nullptr) == 0;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return can_trace;
#else
  return false;
#endif
}

class PodRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = MakeFolder();
    PodRunnerOptions options;
    options.directory = folder_;
    options.manifest_directory = folder_;
    options.base_environment = {{"PATH", "/usr/bin:/bin"}};
    options.termination_file_variable = "TERMINATION_FILE";
    options.on_line = [this](const kube::Pod& pod, std::string_view line) {
      lines_.push_back(pod.name + ": " + std::string(line));
    };
    cluster_ = PodRunner::Start(std::move(options), logger_.get()).value();
  }

  void TearDown() override {
    cluster_.reset();
    std::filesystem::remove_all(folder_);
  }

  static kube::Pod ShellPod(const std::string& name, const std::string& script) {
    kube::Pod pod;
    pod.name = name;
    pod.spec.container.command = {"sh", "-c", script};
    return pod;
  }

  void Create(kube::Pod pod) {
    const Status created = cluster_->CreatePod(std::move(pod), SteadyNow());
    ASSERT_TRUE(created.ok()) << created.error().ToString();
  }

  // Runs the cluster until the event comes; events before it are dropped.
  kube::Pod Await(const std::string& name, PodChange change) {
    const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
    while (!deadline.HasPassed(SteadyNow())) {
      cluster_->Process(SteadyNow());
      for (PodEvent& event : cluster_->TakeEvents()) {
        pending_.push_back(std::move(event));
      }
      while (!pending_.empty()) {
        const PodEvent event = pending_.front();
        pending_.erase(pending_.begin());
        if (event.pod.name == name && event.change == change) {
          return event.pod;
        }
      }
      pollfd entry{cluster_->fd(), POLLIN, 0};
      const auto next = cluster_->NextDeadline(SteadyNow());
      const Deadline wake = next ? Deadline::At(*next) : Deadline::After(SteadyNow(), seconds(1));
      ::poll(&entry, 1, wake.RemainingMilliseconds(SteadyNow()));
    }
    ADD_FAILURE() << "no such event of pod " << name;
    return kube::Pod();
  }

  kube::ContainerTermination RunToEnd(const std::string& script) {
    Create(ShellPod("pod", script));
    return Await("pod", PodChange::kEnded)
        .status.termination.value_or(kube::ContainerTermination());
  }

  // The content of a file that a pod writes, once it is there.
  std::string AwaitFile(const std::string& path) {
    EXPECT_TRUE(Eventually([this, &path] {
      cluster_->Process(SteadyNow());
      return !ReadText(path).empty();
    })) << path;
    return ReadText(path);
  }

  // A file where programs start.
  std::string HereFile(const std::string& name) const { return folder_ + "/" + name; }

  std::string PodFile(const std::string& pod, const std::string& name) const {
    return folder_ + "/pods/" + pod + "/" + name;
  }

  std::string folder_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::vector<std::string> lines_;
  std::vector<PodEvent> pending_;
  std::unique_ptr<PodRunner> cluster_;
};

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

TEST_F(PodRunnerTest, UnknownPodIsNotFound) {
  EXPECT_EQ(cluster_->DeletePod("pod", kForever, SteadyNow()).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(cluster_->SignalPod("pod", SIGTERM).error().code(), ErrorCode::kNotFound);
}

TEST_F(PodRunnerTest, EndOfTheClusterLeavesNothingBehind) {
  Create(ShellPod("pod", "trap '' TERM; sleep 1000 & echo $$ > leader; wait"));
  const pid_t leader = ParsePid(AwaitFile(HereFile("leader")));
  cluster_.reset();
  EXPECT_FALSE(IsAlive(leader));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child of the test is left";
}

TEST_F(PodRunnerTest, EndOfTheClusterReachesProcessesThatHideTheirOrigin) {
  RunToEnd(
      "env -i /usr/bin/setsid /bin/sh -c 'echo $$ > child.part; /bin/mv child.part child; "
      "exec /bin/sleep 1000' & while ! test -e child; do sleep 0.01; done; exit 0");
  const pid_t child = ParsePid(ReadText(HereFile("child")));
  ASSERT_GT(child, 0);
  cluster_.reset();
  EXPECT_FALSE(IsAlive(child));
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
                 "setsid sleep 1000 & echo $! > escaped; sleep 1000 & echo $! > child; "
                 "echo $$ > leader; wait"),
        SteadyNow());
    ::pause();
    ::_exit(created.ok() ? 0 : 1);
  }
  std::vector<pid_t> pids;
  for (const std::string name : {"escaped", "child", "leader"}) {
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
    const PodGuard guard = PodGuard::Start("NONE=", key).value();
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
