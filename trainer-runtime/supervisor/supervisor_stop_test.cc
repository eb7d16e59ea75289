#include <gmock/gmock.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

// In the file "session" of the folder; 0 while there is none.
pid_t SessionIn(const std::string& directory) {
  const Result<std::string> text = ReadFile(directory + "/session", 100);
  return text.ok() ? static_cast<pid_t>(std::stol(*text)) : 0;
}

class SupervisorStopTest : public SupervisorTest {
 protected:
  void SetUp() override {
    SupervisorTest::SetUp();
    options_.session_of = [this](int) { return SessionIn(directory_); };
  }

  // A process that has a session, after `before`, and does `at_stop` when it is asked to end.
  std::string Session(const std::string& at_stop, const std::string& before = "") const {
    return "sh -c '" + before + " echo $$ > " + directory_ + "/session; trap \"" + at_stop +
           "\" TERM; echo ready; while :; do sleep 0.01; done'";
  }
};

// A loader's worker would die of it, and its program of that.
TEST_F(SupervisorStopTest, HelpersOfASessionAreNotAskedToEndWhileItSaves) {
  for (const int signal : {SIGTERM, SIGINT}) {
    seen_.clear();
    UseScript(
        "(trap 'echo helper was asked' TERM INT; echo ready; while :; do sleep 0.01; done) & "
        "trap 'sleep 0.3; echo saved; exit 42' TERM INT; echo $$ > " +
        directory_ + "/session; echo ready; while :; do sleep 0.01; done");
    Start();
    AwaitOutput("ready\n[rank 0] ready");
    Signal(signal);
    EXPECT_EQ(Finish(), 42);
    EXPECT_THAT(seen_, HasSubstr("saved"));
    EXPECT_THAT(seen_, Not(HasSubstr("helper was asked")));
  }
}

// 42 says that the state is saved, and the signal's code would say that it is not.
TEST_F(SupervisorStopTest, WrapperHandsOnTheExitCodeOfItsSession) {
  UseScript(Session("echo saved; exit 42") + "; rc=$?; sleep 0.3; exit $rc");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 42) << seen_;
}

TEST_F(SupervisorStopTest, WhoWasAskedToEndAndIsDoneHasSucceeded) {
  for (const bool is_done : {false, true}) {
    seen_.clear();
    std::filesystem::remove(options_.termination_message_file);
    options_.is_done = [is_done] { return is_done; };
    UseScript("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    Start();
    AwaitOutput("ready");
    Signal(SIGTERM);
    EXPECT_EQ(Finish(), 0) << seen_;
    EXPECT_EQ(Message().outcome, is_done ? Outcome::kSuccess : Outcome::kPreempted);
  }
}

// As setsid, a shell's job control and start_new_session of Python's subprocess make one.
TEST_F(SupervisorStopTest, SessionInAGroupOfItsOwnIsAskedAsWell) {
  UseScript("setsid -w " + Session("echo saved; exit 42") + "; exit $?");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 42) << seen_;
  EXPECT_THAT(seen_, HasSubstr("saved"));
}

TEST_F(SupervisorStopTest, WrapperThatHearsTheStopTwiceHandsOnTheExitCodeAsWell) {
  UseScript(Session("exit 42") + "; rc=$?; echo goes on; sleep 0.3; exit $rc");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  AwaitOutput("goes on");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 42) << seen_;
}

// What it had started would hold the wrapper's pipe for ever.
TEST_F(SupervisorStopTest, HelpersThatASessionHasLeftDoNotHoldItsWrapperUp) {
  UseScript("{ " + Session("exit 42", "sleep 1000 &") + "; echo $? > " + directory_ +
            "/rc; } | cat; exit $(cat " + directory_ + "/rc)");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 42) << seen_;
}

TEST_F(SupervisorStopTest, WrapperThatStartsItsNextProgramInsteadIsAskedSoonAfter) {
  UseScript(Session("echo saved; exit 42") + "; echo next; sleep 1000");
  Start();
  AwaitOutput("ready");
  const TimePoint begin = SteadyNow();
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGTERM) << seen_;
  EXPECT_LT(SteadyNow() - begin, std::chrono::seconds(20)) << "of a grace of 30 s";
  EXPECT_THAT(seen_, HasSubstr("next"));
}

TEST_F(SupervisorStopTest, WrapperThatDoesNotEndIsAskedAndThenKilledWithinTheGrace) {
  options_.grace = std::chrono::seconds(4);
  UseScript("trap 'echo wrapper was asked' TERM; " + Session("echo saved; exit 42") +
            "; while :; do sleep 0.01; done");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGKILL);
  EXPECT_LT(seen_.find("saved"), seen_.find("wrapper was asked")) << seen_;
}

// Of a launcher that hands on no channel, as Python's subprocess, nobody knows who has a session.
TEST_F(SupervisorStopTest, ProgramWhoseScriptDiesOfTheSignalHasTheGraceForWhatItSaves) {
  options_.session_of = nullptr;
  UseScript(Session("sleep 0.5; echo saved; exit 42") + "; echo never");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGTERM);
  EXPECT_THAT(seen_, HasSubstr("saved"));
  EXPECT_THAT(seen_, Not(HasSubstr("never")));
}

// A handler may put the signal's default back first, or be gone when a library has closed.
TEST_F(SupervisorStopTest, ProgramThatHandlesTheSignalOnceHasTheGraceAsWell) {
  options_.session_of = nullptr;
  UseScript(Session("trap - TERM; echo saving; sleep 0.5; echo saved; exit 42") + "; echo never");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGTERM);
  EXPECT_THAT(seen_, HasSubstr("saved"));
}

TEST_F(SupervisorStopTest, ProgramWhoseScriptHasDiedOfTheSignalIsKilledWithinTheGrace) {
  options_.session_of = nullptr;
  options_.grace = std::chrono::seconds(1);
  UseScript(Session("echo goes on") + "; echo never");
  Start();
  AwaitOutput("ready");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGTERM);
  EXPECT_THAT(seen_, HasSubstr("goes on"));
}

// One that has ended, whose number may be a stranger's by now.
TEST_F(SupervisorStopTest, GroupIsAskedToEndWhereTheSessionIsOfNoProcessInIt) {
  UseScript("trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  for (const pid_t session : {::getpid(), 1 << 30}) {
    options_.session_of = [session](int) { return session; };
    seen_.clear();
    Start();
    AwaitOutput("ready");
    Signal(SIGTERM);
    EXPECT_EQ(Finish(), 7);
  }
}

}  // namespace
}  // namespace lockstep::runtime
