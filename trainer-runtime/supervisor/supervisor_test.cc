#include "trainer-runtime/supervisor/supervisor.h"

#include <algorithm>
#include <poll.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST_F(SupervisorTest, ExitCodesArePassedOn) {
  struct Case {
    std::string script;
    int exit_code;
    Outcome outcome;
  };

  const std::vector<Case> cases = {
      {"exit 0", 0, Outcome::kSuccess},
      {"exit 1", 1, Outcome::kPermanent},
      {"exit 42", 42, Outcome::kRetryable},  // nobody has asked it to go
      {"exit 75", 75, Outcome::kRetryable},
      {"exit 137", 137, Outcome::kRetryable},
      {"exit 143", 143, Outcome::kRetryable},
      {"kill -KILL $$", 137, Outcome::kRetryable},
      {"kill -TERM $$", 143, Outcome::kRetryable},
      {"kill -SEGV $$", 139, Outcome::kRetryable},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.script);
    std::filesystem::remove(options_.termination_message_file);
    UseScript(one.script);
    EXPECT_EQ(Run(), one.exit_code);
    EXPECT_EQ(Message().outcome, one.outcome);
    EXPECT_EQ(Message().culprit_rank.has_value(), one.exit_code != 0);
  }
}

// A peer that is lost in the pod may have left: the operator cannot see that of one process.
TEST_F(SupervisorTest, RanksThatHadExitedWithSuccessBeforeAFailureAreToldOf) {
  UseProcesses(3);
  UseScript(
      "case $RANK in 1) : >$DIR/left; exit 0;; 2) trap 'exit 0' TERM; : >$DIR/trapped; "
      "while :; do sleep 0.01; done;; esac; "
      "until test -e $DIR/left -a -e $DIR/trapped; do sleep 0.01; done; sleep 0.3; exit 75");
  for (SupervisedProcess& process : options_.processes) {
    process.environment["DIR"] = directory_;
  }
  EXPECT_EQ(Run(), 75);
  EXPECT_EQ(Message().culprit_rank, 0);
  EXPECT_EQ(Message().left_ranks, std::vector<int>{1});
}

// Its connections close before its process ends, and the one that notices may be quicker.
TEST_F(SupervisorTest, RankThatAFailureNamesAsLostMayEndWithSuccessAfterIt) {
  UseProcesses(3);
  for (const std::string why : {"closed", "silent"}) {
    UseScript("trap 'exit 0' TERM; : >$DIR/" + why +
              "$RANK; if test $RANK = 0; then cd $DIR; "
              "until test -e " +
              why + "1 -a -e " + why +
              "2; do sleep 0.01; done; "
              "echo 'rank 1 is lost: " +
              why + "' >&2; exit 75; fi; while :; do sleep 0.01; done");
    for (SupervisedProcess& process : options_.processes) {
      process.environment["DIR"] = directory_;
    }
    std::filesystem::remove(options_.termination_message_file);
    EXPECT_EQ(Run(), 75);
    EXPECT_EQ(Message().left_ranks, why == "closed" ? std::vector<int>{1} : std::vector<int>{});
  }
}

TEST_F(SupervisorTest, LinesOfAllProcessesArePrefixedByRank) {
  UseProcesses(3);
  UseScript("echo out $RANK; echo err $RANK >&2; printf 'no newline'");
  EXPECT_EQ(Run(), 0);
  EXPECT_THAT(SortedLines(),
              ElementsAre("[rank 0] err 0",
                          "[rank 0] no newline",
                          "[rank 0] out 0",
                          "[rank 1] err 1",
                          "[rank 1] no newline",
                          "[rank 1] out 1",
                          "[rank 2] err 2",
                          "[rank 2] no newline",
                          "[rank 2] out 2"));
}

TEST_F(SupervisorTest, LoneProcessWithoutPrefixIsPassedThroughUnchanged) {
  options_.processes[0].prefix = "";
  UseScript("printf 'step 1\\rstep 2\\rend'");
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(seen_, "step 1\rstep 2\rend");
}

TEST_F(SupervisorTest, ProgramThatStopsInTimeKeepsItsExitCode) {
  UseScript("trap 'echo bye; exit 7' TERM; echo ready; sleep 1000 & wait");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 7);
  EXPECT_THAT(seen_, HasSubstr("[rank 0] bye"));
}

TEST_F(SupervisorTest, ProgramThatIgnoresTermIsKilledBeforeTheGracePeriodEnds) {
  options_.grace = std::chrono::milliseconds(500);
  UseScript("trap '' TERM; echo ready; sleep 1000");
  Start();
  AwaitOutput("ready");
  const TimePoint begin = SteadyNow();
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 137);
  const Duration took = SteadyNow() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(400)) << "the program was not given its time";
  EXPECT_LT(took, std::chrono::seconds(20));
  EXPECT_THAT(Message().reason, HasSubstr("SIGKILL"));
}

TEST_F(SupervisorTest, EverySignalIsForwarded) {
  const std::vector<std::pair<int, std::string>> signals = {
      {SIGTERM, "TERM"}, {SIGINT, "INT"}, {SIGHUP, "HUP"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};
  for (const auto& [number, name] : signals) {
    SCOPED_TRACE(name);
    seen_.clear();
    UseProcesses(2);
    UseScript("trap 'echo got " + name + "; exit 0' " + name +
              "; echo ready $RANK; sleep 1000 & wait");
    Start();
    AwaitOutput("ready 0");
    AwaitOutput("ready 1");
    Signal(number);
    EXPECT_EQ(Finish(), 0);
    EXPECT_THAT(seen_, HasSubstr("[rank 0] got " + name));
    EXPECT_THAT(seen_, HasSubstr("[rank 1] got " + name));
  }
}

// A program that is told twice may take it for an order to stop saving, or die of the signal that
// it has given back.
TEST_F(SupervisorTest, WhoSavesIsNotToldAgainWhenAnotherHasLeft) {
  UseProcesses(3);
  UseScript(
      "trap 'trap - TERM; case $RANK in 0) exit 143;; 1) until test -e $DIR/left; do sleep 0.01; "
      "done; sleep 0.2; echo saved; exit 143;; 2) touch $DIR/left; exit 143;; esac' TERM; "
      "echo ready $RANK; while :; do sleep 0.01; done");
  for (SupervisedProcess& process : options_.processes) {
    process.environment["DIR"] = directory_;
  }
  Start();
  for (const char* rank : {"ready 0", "ready 1", "ready 2"}) {
    AwaitOutput(rank);
  }
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 143);
  EXPECT_THAT(seen_, HasSubstr("[rank 1] saved"));
}

TEST_F(SupervisorTest, WhoSavesForALossIsNotToldAgainWhenThePodIsStopped) {
  UseProcesses(2);
  UseScript(
      "trap 'trap - TERM; echo saving; until test -e $DIR/stopped; do sleep 0.01; done; sleep 0.2; "
      "echo saved; exit 0' TERM; echo ready $RANK; "
      "until test $RANK = 0 -a -e $DIR/fail; do sleep 0.01; done; exit 3");
  for (SupervisedProcess& process : options_.processes) {
    process.environment["DIR"] = directory_;
  }
  const auto logger = MakeFileLogger(directory_ + "/log");
  ASSERT_TRUE(logger.ok());
  options_.logger = logger->get();
  Start();
  AwaitOutput("ready 0");
  AwaitOutput("ready 1");
  ASSERT_TRUE(WriteFileInPlace(directory_ + "/fail", "").ok());
  AwaitOutput("[rank 1] saving");
  Signal(SIGTERM);
  AwaitLog("asked to end");
  Signal(SIGTERM);  // the operator's, and the kubelet's
  ASSERT_TRUE(WriteFileInPlace(directory_ + "/stopped", "").ok());
  EXPECT_EQ(Finish(), 3);
  EXPECT_THAT(seen_, HasSubstr("[rank 1] saved"));
}

TEST_F(SupervisorTest, OneFailureEndsTheOthersAndIsTheVerdict) {
  UseProcesses(3);
  UseScript("test $RANK = 1 && exit 3; exec sleep 1000");
  EXPECT_EQ(Run(), 3);
  EXPECT_EQ(Message().culprit_rank, 1);
  EXPECT_EQ(Message().reason, "exit code 3");
}

TEST_F(SupervisorTest, ReasonIsTheExceptionOfTheProcessThatFailedFirst) {
  UseProcesses(2);
  UseScript(
      "test $RANK = 0 && { trap 'echo KeyboardInterrupt >&2; exit 1' TERM; sleep 1000 & wait; }; "
      "printf 'Traceback (most recent call last):\\n  File \"t.py\"\\n"
      "ValueError: label 11 is out of range\\nAborted\\n' >&2; exit 1");
  EXPECT_EQ(Run(), 1);
  EXPECT_EQ(Message().culprit_rank, 1);
  EXPECT_EQ(Message().reason, "ValueError: label 11 is out of range");
  EXPECT_THAT(Message().tail.value_or(""), HasSubstr("File \"t.py\"\nValueError: label 11"));
}

TEST_F(SupervisorTest, WordsOfAProcessThatWasKilledAreNoReason) {
  UseScript("echo all is well >&2; kill -KILL $$");
  EXPECT_EQ(Run(), 137);
  EXPECT_EQ(Message().reason, "killed by SIGKILL");
}

// Nobody can tell who was killed first, and none is the others' echo. The supervisor is stopped
// meanwhile, so that it sees both at once.
// torchrun itself exits with 1 whatever became of its ranks.
TEST_F(SupervisorTest, SummaryOfTorchrunTellsHowItsRankEnded) {
  struct Row {
    std::string exit_code;
    int code;
    Outcome outcome;
    std::string reason;
  };

  const std::vector<Row> rows = {
      {"-9 (pid: 42)", 137, Outcome::kRetryable, "killed by SIGKILL"},
      {"-11 (pid: 42)", 139, Outcome::kRetryable, "crashed with SIGSEGV"},
      {"3 (pid: 42)", 3, Outcome::kPermanent, "exit code 3"},
      {"1 (pid: 42)", 1, Outcome::kPermanent, "ValueError: bad label"},
  };
  options_.processes[0].rank.reset();
  for (const Row& row : rows) {
    std::filesystem::remove(options_.termination_message_file);
    UseScript(
        "{ echo 'Traceback (most recent call last):'; echo '  File a.py';"
        "echo 'ValueError: bad label'; echo 'Failures:'; echo '  <NO_OTHER_FAILURES>';"
        "echo 'Root Cause (first observed failure):'; echo '  rank      : 5 (local_rank: 1)';"
        "echo '  exitcode  : " +
        row.exit_code + "'; echo '====='; } >&2; exit 1");

    EXPECT_EQ(Run(), row.code);
    EXPECT_EQ(Message().outcome, row.outcome) << row.exit_code;
    EXPECT_EQ(Message().reason, row.reason);
    EXPECT_EQ(Message().culprit_rank, 5);
  }
}

TEST_F(SupervisorTest, ErrorFileOfTorchrunCountsWhereItSaysNothing) {
  options_.torchrun_error_file = directory_ + "/error.json";
  UseScript("echo '{\"message\": {\"message\": \"x\", \"errorCode\": -9}}' > " +
            options_.torchrun_error_file + "; exit 1");

  EXPECT_EQ(Run(), 137);
  EXPECT_EQ(Message().outcome, Outcome::kRetryable);
  EXPECT_FALSE(std::filesystem::exists(options_.torchrun_error_file));
}

TEST_F(SupervisorTest, ProcessesThatWereKilledTogetherAreAllNamed) {
  UseProcesses(3);
  UseScript("echo $$ >$DIR/$RANK.pid; echo ready $RANK; exec sleep 1000");
  for (SupervisedProcess& process : options_.processes) {
    process.environment["DIR"] = directory_;
  }
  Start();
  for (const char* rank : {"ready 0", "ready 1", "ready 2"}) {
    AwaitOutput(rank);
  }
  const std::string first = PidOf(1);
  const std::string second = PidOf(2);
  Signal(SIGSTOP);
  ASSERT_EQ(::waitpid(supervisor_, nullptr, WUNTRACED), supervisor_);
  for (const std::string& pid : {first, second}) {
    ASSERT_EQ(::kill(std::stoi(pid), SIGKILL), 0);
    AwaitEnd(std::stoi(pid));
  }
  Signal(SIGCONT);
  EXPECT_EQ(Finish(), 137);
  EXPECT_THAT(Message().reason,
              MatchesRegex("rank 1 \\(pid " + first + "\\) and rank 2 \\(pid " + second +
                           "\\) were killed by SIGKILL, within [0-9]+ ms"));
}

TEST_F(SupervisorTest, SiblingsOfAFailureDoNotGetTheWholeGrace) {
  UseProcesses(2);
  UseScript("trap '' TERM; test $RANK = 1 && exit 3; sleep 1000");
  const TimePoint begin = SteadyNow();
  EXPECT_EQ(Run(), 3);
  EXPECT_LT(SteadyNow() - begin, options_.grace / 2);
}

TEST_F(SupervisorTest, ProgressBarIsShownInItsStatesAndNotAsOneLine) {
  UseScript("printf 'step 1\\rstep 2\\rstep 3\\nend\\n'");
  EXPECT_EQ(Run(), 0);
  EXPECT_EQ(seen_, "[rank 0] step 1\n[rank 0] step 3\n[rank 0] end\n");
}

TEST_F(SupervisorTest, OneSuccessDoesNotEndTheOthers) {
  UseProcesses(2);
  // Rank 0 may still be on its way out when the signal comes, so it must not mind it.
  UseScript(
      "test $RANK = 0 && trap '' USR1 && echo done && exit 0; trap 'exit 5' USR1; echo ready; "
      "sleep 1000 & wait");
  Start();
  AwaitOutput("done");
  AwaitOutput("ready");
  Signal(SIGUSR1);
  EXPECT_EQ(Finish(), 5);
}

TEST_F(SupervisorTest, NothingIsLeftBehind) {
  UseScript(
      "sleep 1000 & echo pid $!; setsid sh -c 'sleep 1000 & echo pid $!; echo pid $$; sleep 1000' "
      "& read -r x < /dev/null; while test ! -e " +
      directory_ + "/go; do :; done");
  Start();
  std::vector<pid_t> pids;
  for (int count = 0; count < 3; ++count) {
    AwaitOutput("pid ");
    AwaitOutput("\n");
    const std::size_t at = seen_.find("pid ");
    pids.push_back(std::stoi(seen_.substr(at + 4)));
    seen_.erase(0, seen_.find('\n', at) + 1);
  }
  for (const pid_t pid : pids) {
    EXPECT_TRUE(IsRunning(pid)) << pid;
  }
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/go", "").ok());
  EXPECT_EQ(Finish(), 0);
  for (const pid_t pid : pids) {
    EXPECT_FALSE(IsRunning(pid)) << pid;
  }
}

TEST_F(SupervisorTest, KilledSupervisorTakesTheProgramAlong) {
  UseScript("echo pid $$; exec sleep 1000");
  Start();
  AwaitOutput("\n");
  const pid_t program = std::stoi(seen_.substr(seen_.find("pid ") + 4));
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, program, 0)));
  ASSERT_TRUE(pidfd.is_open());
  Signal(SIGKILL);
  pollfd entry{pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 20'000), 1) << "the program outlived its supervisor";
}

TEST_F(SupervisorTest, ProgramsOwnTerminationMessageIsKept) {
  UseScript("echo 'my own words' > " + options_.termination_message_file + "; exit 1");
  EXPECT_EQ(Run(), 1);
  EXPECT_EQ(ReadFile(options_.termination_message_file, kFileMax).value(), "my own words\n");
}

TEST_F(SupervisorTest, EmptyTerminationFileIsFilled) {
  ASSERT_TRUE(WriteFileAtomically(options_.termination_message_file, "").ok());
  UseScript("exit 1");
  EXPECT_EQ(Run(), 1);
  EXPECT_EQ(Message().reason, "exit code 1");
}

TEST_F(SupervisorTest, ReaderThatGoesAwayDoesNotEndTheProgram) {
  UseScript("echo ready; i=0; while test $i -lt 20000; do echo line; i=$((i+1)); done; exit 9");
  Start();
  AwaitOutput("ready");
  output_.Reset();
  output_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Finish(), 9);
}

TEST_F(SupervisorTest, ReaderThatStallsDoesNotHoldUpTheEnd) {
  UseScript("echo ready; exec yes");
  Start();
  AwaitOutput("ready");
  // Nobody reads from here on: once the pipe is full, the signal must still get through.
  AwaitFullOutput();
  Signal(SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(supervisor_, &status, 0), supervisor_);
  supervisor_ = 0;
  EXPECT_EQ(WEXITSTATUS(status), 143);
}

// The runtime may not say that the work is done: the program has only obeyed.
TEST_F(SupervisorTest, ProgramThatEndsOnRequestHasNotFinished) {
  for (const int code : {0, 1}) {
    std::filesystem::remove(options_.termination_message_file);
    const std::string ready = "ready " + std::to_string(code);  // the other's is in the output, too
    UseScript("trap 'exit " + std::to_string(code) + "' TERM; echo " + ready + "; sleep 60 & wait");
    Start();
    AwaitOutput(ready);
    Signal(SIGTERM);

    EXPECT_EQ(Finish(), code);
    EXPECT_EQ(Message().outcome, Outcome::kPreempted) << code;
  }
}

TEST_F(SupervisorTest, EventsTellTheStory) {
  const std::string path = directory_ + "/events";
  options_.on_event = [&path](const SupervisorEvent& event) {
    const Result<std::string> before = ReadFile(path, kFileMax);
    const std::string line = std::to_string(static_cast<int>(event.kind)) + " " +
                             std::to_string(event.local_rank) + " " +
                             std::to_string(event.exit_code) + "\n";
    ASSERT_TRUE(WriteFileAtomically(path, (before.ok() ? *before : "") + line).ok());
  };
  UseProcesses(2);
  UseScript("test $RANK = 1 && exit 3; exec sleep 1000");
  EXPECT_EQ(Run(), 3);
  EXPECT_EQ(ReadFile(path, kFileMax).value(), "0 0 0\n0 1 0\n1 1 3\n2 -1 0\n1 0 143\n");
}

}  // namespace
}  // namespace lockstep::runtime
