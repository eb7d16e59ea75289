#include "trainer-runtime/supervisor/status/pod_listener.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "common/contract/environment/supervised_place.h"
#include "common/contract/status/exit_code.h"

namespace lockstep::runtime {
namespace {

constexpr Duration kNeverSilent = std::chrono::hours(1);

Deadline Soon() {
  return Deadline::After(SteadyNow(), std::chrono::seconds(60));
}

// Looks again until it is so; false after a minute.
bool Becomes(const std::function<bool()>& is_so) {
  const Deadline deadline = Soon();
  while (!is_so()) {
    if (deadline.HasPassed(SteadyNow())) {
      return false;
    }
    ::poll(nullptr, 0, 1);
  }
  return true;
}

// A process that does nothing until it is killed.
pid_t StartIdleProcess() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  return pid;
}

StatusDocument Document(int rank, int64_t step) {
  StatusDocument document;
  document.job = "mnist";
  document.job_uid = "uid";
  document.pod = "mnist-worker-0";
  document.rank = rank;
  document.world_size = 2;
  document.step = Step(step);
  return document;
}

// Keeps the local ranks of processes that are given up, in order.
class GivenUpLogger final : public Logger {
 public:
  void Log(LogLevel /*level*/, std::string_view /*message*/, LogFields fields) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const LogField& field : fields) {
      if (field.key == "local_rank") {
        local_ranks_.push_back(field.value);
      }
    }
  }

  std::vector<std::string> local_ranks() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return local_ranks_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> local_ranks_;
};

class PodListenerTest : public testing::Test {
 protected:
  void Listen(Duration silent_after) {
    listener_ = std::make_unique<PodListener>(2, silent_after, &logger_);
    for (UniqueFd& channel : channels_) {
      channel = listener_->Connect(static_cast<int>(&channel - channels_)).value();
    }
    listener_->ShowOn(&board_);
  }

  void Say(int local_rank, ChannelWord word, const std::string& text) {
    ASSERT_TRUE(SendToChannel(channels_[local_rank].get(), {word, text}, Soon()).ok());
  }

  GivenUpLogger logger_;
  StatusBoard board_{Document(0, 0)};
  UniqueFd channels_[2];
  std::unique_ptr<PodListener> listener_;
};

TEST_F(PodListenerTest, WhatTheLeadingProcessSaysIsOnTheBoardAndAllMetricsOnThePage) {
  Listen(kNeverSilent);
  Say(0, ChannelWord::kMetrics, "# HELP a A.\na 1\n");
  Say(1, ChannelWord::kMetrics, "# HELP a A.\na 2\n");
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(Document(0, 4)));
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(Document(1, 5)));
  EXPECT_TRUE(Becomes([&] { return board_.Snapshot().step == Step(5); }));
  EXPECT_EQ(board_.Snapshot().rank, 0);
  EXPECT_EQ(listener_->newest_step(), Step(5));
  EXPECT_EQ(listener_->MetricsPage(),
            "# HELP a A.\na{local_rank=\"0\"} 1\na{local_rank=\"1\"} 2\n");
}

TEST_F(PodListenerTest, WhatWasToldJustBeforeTheEndIsKnownAfterIt) {
  Listen(kNeverSilent);
  EXPECT_EQ(listener_->Furthest(), std::nullopt);
  StatusDocument last = Document(1, 7);
  last.loss = 0.5;
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(Document(1, 6)));
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(last));
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(Document(0, 3)));
  channels_[1].Reset();
  listener_->NoteEnded(1);
  EXPECT_TRUE(Becomes([&] { return board_.Snapshot().step == Step(3); })) << "of who still runs";
  ASSERT_NE(listener_->Furthest(), std::nullopt);
  EXPECT_EQ(listener_->Furthest()->loss, 0.5);
}

TEST_F(PodListenerTest, ThatAllWorkIsDoneIsKnownOfTheProcessThatSaidIt) {
  Listen(kNeverSilent);
  StatusDocument document = Document(1, 7);
  document.pid = 123;
  document.phase = Phase::kTraining;
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(document));
  EXPECT_FALSE(listener_->IsDone(1, 123));
  document.phase = Phase::kSucceeded;
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(document));
  channels_[1].Reset();
  EXPECT_TRUE(listener_->IsDone(1, 123));
  EXPECT_FALSE(listener_->IsDone(1, 124)) << "a program that a shell has started after it";
  EXPECT_FALSE(listener_->IsDone(0, 123));
}

// Only of a session that has met its peers: one that only reports may end early, as by
// EarlyStopping.
TEST_F(PodListenerTest, EndIsUnfinishedUntilAllWorkIsSaidToBeDone) {
  Listen(kNeverSilent);
  const auto unfinished = [this](const StatusDocument& document) {
    Say(1, ChannelWord::kStatus, EncodeStatusDocument(document));
    return listener_->Objection(1, 0);
  };
  StatusDocument document = Document(1, 5);
  document.steps_total = 48;
  EXPECT_EQ(unfinished(document), "");
  document.backend = "tcp";
  EXPECT_THAT(unfinished(document),
              testing::HasSubstr("but last reported step 5 of 48, and never reported"));
  document.step = Step(48);
  EXPECT_THAT(unfinished(document),
              testing::HasSubstr("but last reported step 48 of 48, and never reported"))
      << "an error after the last step was caught, and the code of the process hidden";
  document.steps_total.reset();
  EXPECT_EQ(unfinished(document), "") << "who knows no plan";
  document.mismatch = "rank 1 called barrier";
  EXPECT_THAT(unfinished(document), testing::HasSubstr("ends with 1: rank 1 called barrier"));
  document.steps_total = 48;
  document.phase = Phase::kSucceeded;
  EXPECT_EQ(unfinished(document), "");
  EXPECT_EQ(listener_->Objection(0, 0), "") << "a process that has reported nothing";
}

// Of a script that runs several.
TEST_F(PodListenerTest, ProgramThatOnlyReportsDoesNotHideThatTheOneBeforeItIsUnfinished) {
  Listen(kNeverSilent);
  StatusDocument document = Document(1, 5);
  document.backend = "tcp";
  document.steps_total = 48;
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(document));
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(Document(1, 0)));
  EXPECT_THAT(listener_->Objection(1, 0), testing::HasSubstr("last reported step 5 of 48"));

  StatusDocument differs = Document(0, 0);
  differs.mismatch = "rank 0 has another plan";  // before they could meet
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(differs));
  EXPECT_THAT(listener_->Objection(0, 0), testing::HasSubstr("rank 0 has another plan"));
}

// 76 is also EX_PROTOCOL of BSD's list, which programs end with for reasons of their own.
TEST_F(PodListenerTest, OnlyAProcessWithASessionIsBelievedThatAnotherDoesItsWork) {
  Listen(kNeverSilent);
  EXPECT_THAT(listener_->Objection(1, kExitSuperseded),
              testing::HasSubstr("ended with exit code 76, which"));
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(Document(1, 5)));
  EXPECT_EQ(listener_->Objection(1, kExitSuperseded), "");
  EXPECT_EQ(listener_->Objection(0, kExitPreempted), "");
}

// A thread of its own sends the document again and again, whatever the program does.
TEST_F(PodListenerTest, OnlyWhatIsNewInADocumentCountsAsAReport) {
  Listen(kNeverSilent);
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(Document(1, 5)));
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(Document(1, 5)));
  Say(1, ChannelWord::kAlive, "");
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(Document(1, 6)));
  EXPECT_TRUE(Becomes([&] { return listener_->newest_step() == Step(6); }));
  EXPECT_EQ(listener_->CountReports(1), 2);
  EXPECT_EQ(listener_->CountReports(0), 0);
}

TEST_F(PodListenerTest, TheOperatorsWordGoesToAllInTheirOwnCount) {
  Listen(kNeverSilent);
  ControlMessage message;
  message.job_uid = "uid";
  message.counter = 3;
  message.kind = ControlKind::kPeerGone;
  message.rank = 2;
  message.epoch = Epoch(8);
  message.incarnation = Incarnation(4);
  listener_->Tell(message);
  for (const UniqueFd& channel : channels_) {
    const auto heard = ReceiveFromChannel(channel.get());
    ASSERT_TRUE(heard.ok() && heard->has_value());
    EXPECT_EQ((*heard)->word, ChannelWord::kControl);
    const auto control = DecodeControlMessage((*heard)->text);
    ASSERT_TRUE(control.ok());
    EXPECT_EQ(control->rank, 2);
    EXPECT_EQ(control->incarnation, IncarnationOfProcess(Incarnation(4), 0));
  }
}

TEST_F(PodListenerTest, LastWordsAreHeardAfterTheEndAndHoldAllCheckpoints) {
  Listen(kNeverSilent);
  StatusDocument earlier = Document(0, 9);
  earlier.checkpoints.written = 2;
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(earlier));
  channels_[0].Reset();
  listener_->NoteEnded(0);
  EXPECT_FALSE(listener_->LastWordsOf(0).has_value());

  channels_[0] = listener_->Connect(0).value();
  StatusDocument later = Document(0, 12);
  later.checkpoints.written = 1;
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  words.reason = "trained";
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(later));
  Say(0, ChannelWord::kLastWords, EncodeTerminationMessage(words));
  channels_[0].Reset();
  listener_->NoteEnded(0);
  ASSERT_TRUE(listener_->LastWordsOf(0).has_value());
  EXPECT_EQ(listener_->LastWordsOf(0)->reason, "trained");
  EXPECT_EQ(listener_->LastWordsOf(0)->checkpoints->written, 3);
}

TEST_F(PodListenerTest, ProcessThatFallsSilentIsKilledAndOneThatNeverSpokeIsNot) {
  const pid_t starting = StartIdleProcess();
  const pid_t frozen = StartIdleProcess();
  Listen(std::chrono::milliseconds(50));
  listener_->NoteStarted(0, starting);
  listener_->NoteStarted(1, frozen);
  Say(1, ChannelWord::kAlive, "");
  int status = 0;
  EXPECT_TRUE(Becomes([&] { return ::waitpid(frozen, &status, WNOHANG) == frozen; }));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_EQ(::waitpid(starting, &status, WNOHANG), 0);
  ::kill(starting, SIGKILL);
  ::waitpid(starting, &status, 0);
}

// A listener that looks late counts anew: between the two ends are more than its patience.
TEST_F(PodListenerTest, ProcessThatIsStoppedIsKilledBeforeOneThatIsOnlySilent) {
  const pid_t idle = StartIdleProcess();
  const pid_t stopped = StartIdleProcess();
  int status = 0;
  ::kill(stopped, SIGSTOP);
  ASSERT_EQ(::waitpid(stopped, &status, WUNTRACED), stopped);
  Listen(std::chrono::milliseconds(300));
  listener_->NoteStarted(0, idle);
  listener_->NoteStarted(1, stopped);
  Say(0, ChannelWord::kAlive, "");
  Say(1, ChannelWord::kAlive, "");
  EXPECT_TRUE(Becomes([&] { return ::waitpid(idle, &status, WNOHANG) == idle; }));
  EXPECT_TRUE(Becomes([&] { return ::waitpid(stopped, &status, WNOHANG) == stopped; }));
  EXPECT_EQ(logger_.local_ranks(), (std::vector<std::string>{"1", "0"}));
}

// Of the two the one that said goodbye is silent for longer.
TEST_F(PodListenerTest, ProcessThatSaidGoodbyeMayBeSilent) {
  const pid_t done = StartIdleProcess();
  const pid_t frozen = StartIdleProcess();
  Listen(std::chrono::milliseconds(50));
  listener_->NoteStarted(0, done);
  listener_->NoteStarted(1, frozen);
  Say(0, ChannelWord::kAlive, "");
  Say(0, ChannelWord::kGoodbye, "");
  Say(1, ChannelWord::kAlive, "");
  int status = 0;
  EXPECT_TRUE(Becomes([&] { return ::waitpid(frozen, &status, WNOHANG) == frozen; }));
  EXPECT_EQ(::waitpid(done, &status, WNOHANG), 0);
  ::kill(done, SIGKILL);
  ::waitpid(done, &status, 0);
}

// The session is torchrun's, then, and the steps are its workers'.
TEST_F(PodListenerTest, StepOfATrainersStatusIsTheNewestWhereNoSessionTellsOne) {
  Listen(kNeverSilent);
  EXPECT_EQ(listener_->newest_step(), Step());
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(Document(0, 0)));
  listener_->TakeTrainerStatus({std::nullopt, {{"current_step", 7}}});
  EXPECT_EQ(listener_->newest_step(), Step(7));
}

// Hugging Face's Trainer sends its steps as well, seldom: the newest one that it sent is long past.
TEST_F(PodListenerTest, StepOfATrainersStatusIsNotShownWhereTheSessionThatToldStepsIsLost) {
  Listen(kNeverSilent);
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(Document(0, 17)));
  EXPECT_TRUE(Becomes([&] { return board_.Snapshot().step == Step(17); }));
  listener_->TakeTrainerStatus({std::nullopt, {{"current_step", 7}}});
  channels_[0].Reset();
  listener_->NoteEnded(0);
  Say(1, ChannelWord::kMetrics, "a 1\n");  // whoever hears it has looked at all
  EXPECT_TRUE(Becomes([&] { return !listener_->MetricsPage().empty(); }));
  EXPECT_EQ(board_.Snapshot().step, Step(17));
  EXPECT_EQ(listener_->newest_step(), Step(17));
}

// A program on torch that reports nothing.
TEST_F(PodListenerTest, StepsOfOptimizersAreShownWhereNobodyTellsOthers) {
  Listen(kNeverSilent);
  StepFile file = StepFile::Make(2).value();
  const UniqueFd program(::open(file.path().c_str(), O_RDWR));
  listener_->ReadSteps(std::move(file));
  EXPECT_FALSE(listener_->HasStepped());
  const auto write = [&](int local_rank, int64_t count, int64_t step) {
    const int64_t numbers[] = {count, step};
    return ::pwrite(program.get(), numbers, sizeof(numbers), 24 * local_rank);
  };
  write(1, 2, -1);  // it went on from a checkpoint, and does not know from which
  EXPECT_TRUE(Becomes([&] { return listener_->HasStepped(); }));
  EXPECT_EQ(listener_->newest_step(), Step());
  EXPECT_EQ(listener_->CountReports(0), 0) << "one process of the pod may hang beside the other";
  EXPECT_EQ(listener_->CountReports(1), 2);

  write(0, 7, 7);
  EXPECT_TRUE(Becomes([&] { return board_.Snapshot().step == Step(7); }));
  listener_->TakeTrainerStatus({std::nullopt, {{"loss", 0.5}}});
  EXPECT_EQ(listener_->newest_step(), Step(7));
  listener_->TakeTrainerStatus({std::nullopt, {{"current_step", 6}}});
  EXPECT_EQ(listener_->newest_step(), Step(6)) << "a trainer knows better";
  listener_->ForgetLosses();
  EXPECT_EQ(listener_->newest_step(), Step());
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(Document(0, 5)));
  EXPECT_TRUE(Becomes([&] { return listener_->newest_step() == Step(5); }));
  write(0, 9, 9);
  EXPECT_TRUE(Becomes([&] { return listener_->CountReports(0) >= 9; }));
  EXPECT_EQ(listener_->newest_step(), Step(5)) << "so does a session";
}

// A program that only tells its progress meets nobody: a successor would wait in vain.
TEST_F(PodListenerTest, OnlyWhoHasMetAndIsNotDoneIsMissed) {
  Listen(kNeverSilent);
  StatusDocument document = Document(0, 3);
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(document));
  Say(1, ChannelWord::kStatus, EncodeStatusDocument(document));
  EXPECT_TRUE(Becomes([&] { return listener_->newest_step() == Step(3); }));
  EXPECT_FALSE(listener_->IsMissed(0));

  document.backend = "tcp";
  document.phase = Phase::kTraining;
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(document));
  EXPECT_TRUE(Becomes([&] { return listener_->IsMissed(0); }));
  listener_->NoteEnded(0);
  EXPECT_TRUE(listener_->IsMissed(0));

  channels_[0] = listener_->Connect(0).value();
  EXPECT_FALSE(listener_->IsMissed(0));
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(document));
  document.phase = Phase::kSucceeded;
  Say(0, ChannelWord::kStatus, EncodeStatusDocument(document));
  channels_[0].Reset();
  listener_->NoteEnded(0);
  EXPECT_FALSE(listener_->IsMissed(0));
}

TEST(ProcessChannel, WordsStayWholeAndTheEndIsHeardLast) {
  ChannelEnds ends = MakeChannel().value();
  ASSERT_TRUE(SendToChannel(ends.process.get(), {ChannelWord::kStatus, "one"}, Soon()).ok());
  ASSERT_TRUE(SendToChannel(ends.process.get(), {ChannelWord::kAlive, ""}, Soon()).ok());
  ends.process.Reset();
  EXPECT_EQ(ReceiveFromChannel(ends.supervisor.get()).value()->text, "one");
  EXPECT_EQ(ReceiveFromChannel(ends.supervisor.get()).value()->word, ChannelWord::kAlive);
  EXPECT_EQ(ReceiveFromChannel(ends.supervisor.get()).error().code(), ErrorCode::kPeerLost);
  EXPECT_EQ(
      SendToChannel(ends.supervisor.get(), {ChannelWord::kControl, ""}, Soon()).error().code(),
      ErrorCode::kPeerLost);
}

TEST(ProcessChannel, NothingIsSaidUntilSomethingIs) {
  const ChannelEnds ends = MakeChannel().value();
  EXPECT_FALSE(ReceiveFromChannel(ends.supervisor.get()).value().has_value());
  const std::string long_text(kChannelBytesMax, 'x');
  EXPECT_EQ(
      SendToChannel(ends.process.get(), {ChannelWord::kStatus, long_text}, Soon()).error().code(),
      ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::runtime
