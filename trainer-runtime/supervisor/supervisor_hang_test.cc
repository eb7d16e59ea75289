// Programs that hang, as real processes under a supervisor with a limit.

#include <algorithm>
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class SupervisorHangTest : public SupervisorTest {
 protected:
  void SetUp() override {
    SupervisorTest::SetUp();
    options_.hung_after = std::chrono::seconds(1);
  }

  // The process that a program told as "pid NUMBER".
  pid_t AwaitPid() {
    AwaitOutput("pid ");
    AwaitOutput("\n");
    return std::stoi(seen_.substr(seen_.find("pid ") + 4));
  }

  void UsePython(const std::string& program) {
    options_.command = {"python3", "-u", "-c", program};
  }

  // They have taken a step when they answer, not before: a busy machine takes longer to start them
  // than the limit is.
  void StepWhenTheyAnswer(std::vector<int> ranks) {
    const std::string path = directory_ + "/answers-";
    for (SupervisedProcess& process : options_.processes) {
      process.environment["ANSWERS"] = path;
    }
    options_.court.has_stepped = [path, ranks = std::move(ranks)] {
      return std::ranges::all_of(
          ranks, [&](int rank) { return std::filesystem::exists(path + std::to_string(rank)); });
    };
  }
};

TEST_F(SupervisorHangTest, NobodyIsWatchedWithoutALimit) {
  options_.hung_after.reset();
  UseScript("sleep 3; exit 5");
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, AProgramThatSleepsIsEndedAndSaysSo) {
  UseScript("exec sleep 1000");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_EQ(Message().outcome, Outcome::kRetryable);
  EXPECT_EQ(Message().culprit_rank, 0);
  EXPECT_THAT(Message().reason, HasSubstr("hangs: for 1."));
  EXPECT_THAT(Message().reason, HasSubstr("its main thread sleeps"));
  EXPECT_THAT(Message().reason, Not(HasSubstr("another pod")));
}

TEST_F(SupervisorHangTest, APodAmongOthersDoesNotBlameItsOwnRankForWaiting) {
  options_.has_peers_elsewhere = true;
  UseScript("exec sleep 1000");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_THAT(Message().reason,
              HasSubstr("perhaps this process only waits for a rank in another pod"));
}

TEST_F(SupervisorHangTest, AProgramThatComputesDoesNotHang) {
  UsePython(
      "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass\n"
      "raise SystemExit(5)");
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, AProgramWhoseChildComputesInASessionOfItsOwnDoesNotHang) {
  UseScript("setsid timeout 3 sh -c 'while :; do :; done'; exit 5");
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, AProgramThatWaitsForADaemonThatComputesDoesNotHang) {
  UsePython(
      "import os, time\nr, w = os.pipe()\n"
      "if os.fork() == 0:\n  os.setsid()\n  if os.fork(): os._exit(0)\n"
      "  end = time.monotonic() + 3\n  while time.monotonic() < end: pass\n  os._exit(0)\n"
      "os.close(w); os.wait(); os.read(r, 1)\nraise SystemExit(5)");
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, AProgramWhoseMainThreadHasEndedAndWhoseOthersComputeDoesNotHang) {
  UsePython(
      "import ctypes, os, threading, time\n"
      "def compute():\n  end = time.monotonic() + 3\n  while time.monotonic() < end: pass\n"
      "  os._exit(5)\n"
      "threading.Thread(target=compute).start()\nctypes.CDLL(None).pthread_exit(None)");
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, AProgramThatWritesDoesNotHang) {
  UsePython(
      "import time\nfor _ in range(10):\n  time.sleep(0.3); print('.', end='')\n"
      "raise SystemExit(5)");
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, AProgramThatReportsDoesNotHang) {
  const TimePoint begin = SteadyNow();
  options_.count_reports = [begin](int) {  // for three seconds
    return std::min<int64_t>((SteadyNow() - begin) / std::chrono::milliseconds(300), 10);
  };
  UseScript("sleep 3; exit 5");
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, AStoppedProgramIsFoundUnderALivingSupervisor) {
  UseScript("echo pid $$; exec sh -c 'while :; do :; done'");
  Start();
  ::kill(AwaitPid(), SIGSTOP);
  EXPECT_EQ(Finish(), kExitHung);
  EXPECT_THAT(Message().reason, HasSubstr("it is stopped (SIGSTOP, or a debugger)"));
}

// Both of the others wait, as ranks in a collective do.
TEST_F(SupervisorHangTest, TheStoppedOneIsNamedAmongThoseThatWaitForIt) {
  UseProcesses(3);
  UseScript("if test $RANK = 1; then echo pid $$; while :; do :; done; fi; exec sleep 1000");
  Start();
  ::kill(AwaitPid(), SIGSTOP);
  EXPECT_EQ(Finish(), kExitHung);
  EXPECT_EQ(Message().culprit_rank, 1) << Message().reason;
  EXPECT_THAT(Message().reason, HasSubstr("it is stopped"));
}

TEST_F(SupervisorHangTest, TheOneThatDoesNothingForLongestIsNamed) {
  UseProcesses(3);
  UseScript("test $RANK = 1 || timeout 0.7 sh -c 'while :; do :; done'; exec sleep 1000");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_EQ(Message().culprit_rank, 1);
  EXPECT_THAT(Message().reason, Not(HasSubstr("it is unknown")));
}

TEST_F(SupervisorHangTest, ThatItCannotBeToldIsSaid) {
  options_.hung_after = std::chrono::seconds(4);  // two looks are enough for all to have started
  UseProcesses(3);
  UseScript("exec sleep 1000");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_THAT(Message().reason,
              HasSubstr("3 processes of the pod stopped working at the same time, so it is unknown "
                        "which of these processes caused the hang"));
}

// Answers as lockstep_hang does, while its main thread uses a core, as ranks that wait in NCCL do.
// Rank 1 has called one collective less than the others. LIFE: long where somebody is to be ended,
// however busy the machine is.
constexpr const char* kAnswering = R"py(
import json, os, socket, threading, time
server = socket.socket(socket.AF_UNIX)
server.bind("\0%s-%d" % (os.environ["LOCKSTEP_HANG_SOCKET"], os.getpid()))
server.listen()
rank = int(os.environ["RANK"])
looks = 0
def answer():
  global looks
  while True:
    connection, _ = server.accept()
    looks += 1
    number = 7 + MOVES * looks
    group = {"id": "pg", "name": "group pg", "called": number - (rank == 1),
             "waitsIn": 0 if rank == 1 else number, "operation": "all_reduce"}
    said = {"rank": rank, "place": "load (a.py:3)", "groups": [group]}
    connection.sendall(json.dumps(said).encode())
    connection.close()
threading.Thread(target=answer, daemon=True).start()
if "ANSWERS" in os.environ:
  open(os.environ["ANSWERS"] + str(rank), "w").close()
  seen = time.monotonic() + 1  # it is asked before it has been idle for as long
  while time.monotonic() < seen: pass
end = time.monotonic() + LIFE
while time.monotonic() < end: time.sleep(PAUSE)
raise SystemExit(5)
)py";

TEST_F(SupervisorHangTest, TheRankIsNamedThatHasNotCalledWhatOthersWaitIn) {
  UseProcesses(3);
  StepWhenTheyAnswer({0, 1, 2});
  UsePython("LIFE = 300; MOVES = 0; PAUSE = 0" + std::string(kAnswering));
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_EQ(Message().culprit_rank, 1);
  EXPECT_EQ(Message().reason,
            "hangs: rank 1 has not called all_reduce #7 of group pg, in which 2 ranks wait; rank 1 "
            "is in load (a.py:3)");
}

TEST_F(SupervisorHangTest, ARankIsNamedAfterAnotherOneHasEnded) {
  UseProcesses(3);
  StepWhenTheyAnswer({1, 2});
  UsePython(
      "import os\nif os.environ['RANK'] == '0': raise SystemExit(0)\n"
      "LIFE = 300; MOVES = 0; PAUSE = 0" +
      std::string(kAnswering));
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_EQ(Message().culprit_rank, 1);
}

// As ranks that wait in gloo do.
TEST_F(SupervisorHangTest, RanksThatWaitIdlyForTheOneAtFaultAreLeftAlone) {
  UseProcesses(2);
  StepWhenTheyAnswer({0, 1});
  for (SupervisedProcess& process : options_.processes) {
    process.environment["PYTHONFAULTHANDLER"] = "1";
  }
  UsePython("LIFE = 300; MOVES = 0; PAUSE = 100" + std::string(kAnswering));
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_EQ(Message().culprit_rank, 1);
  EXPECT_THAT(seen_, HasSubstr("[rank 1] Fatal Python error: Aborted"));
  EXPECT_THAT(seen_, Not(HasSubstr("[rank 0] Fatal Python error")));
}

TEST_F(SupervisorHangTest, ASlowRankIsNotJudged) {
  UseProcesses(2);
  StepWhenTheyAnswer({0, 1});
  UsePython("LIFE = 8; MOVES = 1; PAUSE = 0" + std::string(kAnswering));
  EXPECT_EQ(Run(), 5);
}

// The ranks that wait for it may be idle, and are not ended either.
TEST_F(SupervisorHangTest, RanksThatWaitIdlyForASlowOneAreLeftAlone) {
  UseProcesses(2);
  StepWhenTheyAnswer({0, 1});
  UsePython("LIFE = 8; MOVES = 1; PAUSE = 4" + std::string(kAnswering));
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, NobodyIsJudgedBeforeTheFirstStep) {
  UseProcesses(2);
  UsePython("LIFE = 8; MOVES = 0; PAUSE = 0" + std::string(kAnswering));
  EXPECT_EQ(Run(), 5);
}

TEST_F(SupervisorHangTest, StacksOfPythonAreInTheLogAndInTheLastWords) {
  options_.processes[0].environment["PYTHONFAULTHANDLER"] = "1";
  UsePython("import time\ndef load_batch():\n  time.sleep(1000)\nload_batch()");
  EXPECT_EQ(Run(), kExitHung);
  for (const std::string& text : {seen_, Message().tail.value_or("")}) {
    EXPECT_THAT(text, HasSubstr("line 3 in load_batch"));
  }
  EXPECT_THAT(Message().reason, testing::EndsWith("; Python was in load_batch (<string>:3)"));
}

// A program that is stopped takes no signal before it goes on.
TEST_F(SupervisorHangTest, StacksOfAStoppedProgramBelowAShellAreThere) {
  options_.processes[0].environment["PYTHONFAULTHANDLER"] = "1";
  UseScript(
      "python3 -u -c 'import os\ndef f():\n  print(\"pid\", os.getpid())\n  while True: pass\n"
      "f()'; exit 3");
  Start();
  ::kill(AwaitPid(), SIGSTOP);
  EXPECT_EQ(Finish(), kExitHung);
  EXPECT_THAT(seen_, ContainsRegex("line [34] in f\n"));
}

// A handler may do anything but end.
TEST_F(SupervisorHangTest, AProgramThatKeepsGoingOnSigabrtIsKilled) {
  UsePython(
      "import signal, time\nsignal.signal(signal.SIGABRT, lambda *_: print('not yet'))\n"
      "while True: time.sleep(1000)");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_THAT(seen_, HasSubstr("not yet"));
}

// The shell has a handler and waits for the one that has none.
TEST_F(SupervisorHangTest, NothingIsSentToAProgramThatHasNoHandler) {
  UseScript("trap 'echo mine' ABRT; sleep 1000; echo after $?");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_THAT(seen_, Not(HasSubstr("after")));
}

TEST_F(SupervisorHangTest, OneThatPeersMissIsStartedAgainAndWatchedAgain) {
  options_.wants_again = [count = 0](const SupervisorEvent& ended) mutable {
    EXPECT_EQ(ended.signal, SIGKILL);
    return ++count == 1;
  };
  UseScript("echo started; exec sleep 1000");
  EXPECT_EQ(Run(), kExitHung);
  EXPECT_EQ(seen_, "[rank 0] started\n[rank 0] started\n");
}

TEST_F(SupervisorHangTest, ASuccessorsEndIsItsOwn) {
  options_.wants_again = [count = 0](const SupervisorEvent&) mutable { return ++count == 1; };
  UseScript("test -e " + directory_ + "/tried && exit 5; touch " + directory_ +
            "/tried; exec sleep 1000");
  EXPECT_EQ(Run(), 5);
  EXPECT_EQ(Message().reason, "exit code 5");
}

// A program that is asked to end has its grace, however quiet it is.
TEST_F(SupervisorHangTest, NobodyIsWatchedOnceAllAreAskedToEnd) {
  UsePython(
      "import signal, sys, time\ndef end(*_):\n  time.sleep(3); sys.exit(7)\n"
      "signal.signal(signal.SIGTERM, end)\nprint('ready')\nwhile True: time.sleep(0.1); print()");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 7);
}

// Who reads the log may be slow: then the program has to wait, through no fault of its own.
TEST_F(SupervisorHangTest, AProgramWhoseOutputNobodyTakesDoesNotHang) {
  UseScript("head -c 3000000 /dev/zero | tr '\\0' '\\n'; exit 5");
  Start();
  AwaitFullOutput();
  ::poll(nullptr, 0, 3000);
  EXPECT_EQ(Finish(), 5);
}

}  // namespace
}  // namespace lockstep::runtime
