#include "trainer-runtime/supervisor/program_hold.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

namespace lockstep::runtime {
namespace {

using std::chrono::seconds;

ControlMessage Message(ControlKind kind, int64_t relaunch) {
  ControlMessage message;
  message.kind = kind;
  message.relaunch = relaunch;
  message.epoch = Epoch(7);
  return message;
}

class ProgramHoldTest : public testing::Test {
 protected:
  ProgramHoldTest() : board_(StatusDocument()), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    environment_.attempt = Attempt(3);
    environment_.epoch = Epoch(5);
    environment_.rank = 0;
    environment_.hold = seconds(600);
  }

  void SetUp() override {
    hold_ = std::move(ProgramHold::Make(environment_, &board_, logger_.get())).value();
  }

  const std::unique_ptr<Logger> logger_ = MakeNullLogger();
  WorkerEnvironment environment_;
  StatusBoard board_;
  const UniqueFd stop_;
  std::unique_ptr<ProgramHold> hold_;
};

TEST_F(ProgramHoldTest, SaysThatItCanBeRelaunched) {
  EXPECT_EQ(board_.Snapshot().relaunches, 0);
  EXPECT_FALSE(hold_->WantsHalt());
  EXPECT_TRUE(hold_->environment().empty());
  EXPECT_EQ(hold_->start(), (GangStart{Attempt(3), Epoch(5)}));
}

TEST_F(ProgramHoldTest, EndIsToldUntilTheRelaunch) {
  board_.Tell();
  hold_->Take(Message(ControlKind::kHalt, 1));
  EXPECT_TRUE(hold_->WantsHalt());
  std::jthread operators([&] {
    while (!board_.Tell().held.has_value()) {
      std::this_thread::yield();
    }
    EXPECT_EQ(board_.Tell().held->exit_code, 137);
    EXPECT_EQ(board_.Tell().held->message, "words");
    EXPECT_TRUE(board_.Tell().held->monotonic_ns.has_value());
    EXPECT_EQ(hold_->start(), (GangStart{Attempt(3), Epoch(5)})) << "the programs have only ended";
    hold_->Take(Message(ControlKind::kRelaunch, 1));
  });
  EXPECT_TRUE(hold_->AwaitRelaunch({137, 9, 0, "words"}, stop_.get()));

  EXPECT_EQ(board_.Snapshot().relaunches, 1);
  EXPECT_FALSE(board_.Snapshot().held.has_value());
  EXPECT_EQ(board_.Snapshot().epoch, Epoch(7));
  EXPECT_FALSE(hold_->WantsHalt());
  EXPECT_EQ(hold_->start(), (GangStart{Attempt(4), Epoch(7)}));
  EXPECT_EQ(
      hold_->environment(),
      (EnvironmentMap{{env::kAttempt, "4"}, {env::kEpoch, "7"}, {env::kTorchRestartCount, "4"}}));
}

// When the first program failed, and not when the last one had ended.
TEST_F(ProgramHoldTest, MomentOfTheEndIsToldAsItWasGiven) {
  board_.Tell();
  const TimePoint ended = SteadyNow() - seconds(2);
  std::jthread operators([&] {
    while (!board_.Tell().held.has_value()) {
      std::this_thread::yield();
    }
    EXPECT_EQ(board_.Tell().held->monotonic_ns, ended.time_since_epoch().count());
    EXPECT_GE(board_.Tell().held->seconds_ago, 2);
    hold_->Take(Message(ControlKind::kRelaunch, 1));
  });
  EXPECT_TRUE(hold_->AwaitRelaunch({1, 0, 0, "", ended.time_since_epoch().count()}, stop_.get()));
}

TEST_F(ProgramHoldTest, MessagesOfBeforeChangeNothing) {
  board_.Tell();
  hold_->Take(Message(ControlKind::kRelaunch, 2));
  EXPECT_TRUE(hold_->AwaitRelaunch({}, stop_.get()));
  hold_->Take(Message(ControlKind::kHalt, 2));
  hold_->Take(Message(ControlKind::kHalt, 1));
  EXPECT_FALSE(hold_->WantsHalt());
}

TEST_F(ProgramHoldTest, NobodyAsksSoNobodyIsWaitedFor) {
  EXPECT_FALSE(hold_->AwaitRelaunch({137, 9, 0, ""}, stop_.get()));
}

TEST_F(ProgramHoldTest, StopEndsTheWait) {
  board_.Tell();
  const uint64_t one = 1;
  ASSERT_EQ(::write(stop_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  EXPECT_FALSE(hold_->AwaitRelaunch({137, 9, 0, ""}, stop_.get()));
}

TEST(ProgramHold, TimeThatIsOverEndsTheWait) {
  const std::unique_ptr<Logger> logger = MakeNullLogger();
  WorkerEnvironment environment;  // no time at all
  StatusBoard board{StatusDocument()};
  auto hold = std::move(ProgramHold::Make(environment, &board, logger.get())).value();
  board.Tell();
  EXPECT_FALSE(hold->AwaitRelaunch({137, 9, 0, ""}, UniqueFd(::eventfd(0, 0)).get()));
}

}  // namespace
}  // namespace lockstep::runtime
