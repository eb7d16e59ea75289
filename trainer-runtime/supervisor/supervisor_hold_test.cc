#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "trainer-runtime/supervisor/program_hold.h"
#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using std::chrono::seconds;

// A supervisor whose programs are started anew by an operator, a thread in its process.
class SupervisorHoldTest : public SupervisorTest {
 protected:
  // Asks for the status as long as the supervisor lives. Starts the programs anew when they have
  // ended, `relaunches` times; before that halts them, where `halts`.
  void UseOperator(int64_t relaunches, bool halts) {
    environment_.hold = seconds(600);
    environment_.rank = 0;
    hold_ = std::move(ProgramHold::Make(environment_, &board_, logger_.get())).value();
    options_.hold = hold_.get();
    options_.on_start = [this](int) -> Result<ProcessStart> {
      ProcessStart start;
      start.environment = hold_->environment();
      return start;
    };
    options_.on_event = [this, relaunches, halts](const SupervisorEvent& event) {
      if (event.kind == SupervisorEvent::Kind::kStarted && !operator_.joinable()) {
        board_.Tell();
        operator_ = std::jthread([this, relaunches, halts](const std::stop_token& stop) {
          Operate(stop, relaunches, halts);
        });
      }
    };
  }

  void Operate(const std::stop_token& stop, int64_t relaunches, bool halts) {
    for (int64_t next = 1; next <= relaunches && !stop.stop_requested(); ::poll(nullptr, 0, 1)) {
      const bool is_held = board_.Tell().held.has_value();
      const bool may_halt = ReadFile(directory_ + "/runs", kFileMax).ok();
      if (is_held) {
        Say(ControlKind::kRelaunch, next++);
      } else if (halts && may_halt && next == 1) {
        Say(ControlKind::kHalt, next);
      }
    }
  }

  void Say(ControlKind kind, int64_t relaunch) {
    ControlMessage message;
    message.kind = kind;
    message.relaunch = relaunch;
    message.epoch = Epoch(relaunch);
    hold_->Take(message);
  }

  WorkerEnvironment environment_;
  StatusBoard board_{StatusDocument()};
  std::unique_ptr<ProgramHold> hold_;
  std::jthread operator_;  // only in the supervisor's process
};

TEST_F(SupervisorHoldTest, ProgramThatFailedIsStartedAnewInItsPod) {
  UseOperator(1, /*halts=*/false);
  UseScript("cd " + directory_ +
            "; echo attempt $LOCKSTEP_ATTEMPT epoch $LOCKSTEP_EPOCH restarts "
            "$TORCHELASTIC_RESTART_COUNT; test -e tried && exit 0; touch tried; kill -KILL $$");
  EXPECT_EQ(Run(), kExitSuccess) << seen_;
  EXPECT_NE(seen_.find("attempt epoch restarts\n"), std::string::npos) << seen_;
  EXPECT_NE(seen_.find("attempt 1 epoch 1 restarts 1\n"), std::string::npos) << seen_;
  EXPECT_EQ(Message().outcome, Outcome::kSuccess);
}

TEST_F(SupervisorHoldTest, NothingOfBeforeRunsBesideTheNext) {
  UseOperator(1, /*halts=*/false);
  UseScript("cd " + directory_ +
            "; if test -e orphan; then kill -0 $(cat orphan) 2>/dev/null && exit 9; exit 0; fi; "
            "setsid sleep 1000 & echo $! > orphan; "
            "until test $(ps -o sid= -p $!) = $!; do :; done; exit 3");
  EXPECT_EQ(Run(), kExitSuccess) << seen_;
}

TEST_F(SupervisorHoldTest, ProgramsThatRunAreHaltedAndStartedAnew) {
  UseProcesses(2);
  UseOperator(1, /*halts=*/true);
  UseScript("cd " + directory_ +
            "; test -n \"$LOCKSTEP_ATTEMPT\" && exit 0; touch runs; while :; do sleep 0.01; done");
  EXPECT_EQ(Run(), kExitSuccess) << seen_;
}

TEST_F(SupervisorHoldTest, WhoIsHaltedAndMayNotBeHeldHasNotSucceeded) {
  UseOperator(1, /*halts=*/true);
  options_.may_hold = [] { return false; };
  UseScript("cd " + directory_ + "; trap 'exit 0' TERM; touch runs; while :; do sleep 0.01; done");
  EXPECT_EQ(Run(), kExitRetryable) << seen_;
  EXPECT_EQ(Message().outcome, Outcome::kRetryable);
}

TEST_F(SupervisorHoldTest, EndThatNobodyAsksForIsThePodsAtOnce) {
  UseOperator(0, /*halts=*/false);
  options_.on_event = nullptr;  // nobody ever asks
  UseScript("echo last words >&2; exit 5");
  EXPECT_EQ(Run(), 5);
  EXPECT_EQ(Message().reason, "last words");
  EXPECT_EQ(Message().relaunches, 0);
}

TEST_F(SupervisorHoldTest, StopEndsAPodThatIsHeldAsItsProgramEnded) {
  UseOperator(0, /*halts=*/false);
  logger_ = std::move(MakeFileLogger(directory_ + "/log")).value();
  options_.logger = logger_.get();
  hold_ = std::move(ProgramHold::Make(environment_, &board_, logger_.get())).value();
  options_.hold = hold_.get();
  UseScript("exit 5");
  Start();
  AwaitLog("the pod waits for their relaunch");
  Signal(SIGTERM);
  EXPECT_EQ(Finish(), 5);
}

TEST_F(SupervisorHoldTest, TerminationMessageSaysHowOftenTheProgramsWereRelaunched) {
  UseOperator(1, /*halts=*/false);
  UseScript("cd " + directory_ + "; test -e tried && exit 0; touch tried; exit 3");
  EXPECT_EQ(Run(), kExitSuccess);
  EXPECT_EQ(Message().relaunches, 1);
}

TEST_F(SupervisorHoldTest, WordsOfTheFirstStartAreNotThoseOfTheLast) {
  UseOperator(1, /*halts=*/false);
  UseScript("cd " + directory_ +
            "; test -e tried && exit 0; touch tried; echo early > termination; exit 3");
  EXPECT_EQ(Run(), kExitSuccess);
  EXPECT_EQ(Message().outcome, Outcome::kSuccess);
}

}  // namespace
}  // namespace lockstep::runtime
