#include "common/contract/status/termination_message.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/environment/topology.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(TerminationMessage, RoundTrips) {
  for (const Outcome outcome : kOutcomes) {
    TerminationMessage message;
    message.outcome = outcome;
    message.reason = "rank 2 went silent: \"no\nanswer\" \u20ac";
    EXPECT_EQ(DecodeTerminationMessage(EncodeTerminationMessage(message)).value(), message);
    message.last_step = Step(120);
    message.last_checkpoint_step = Step(100);
    message.culprit_rank = 2;
    message.left_ranks = {0, 3};
    message.samples = SampleCounts{960, 960, 0, 0};
    message.training_loss = 0.3125;
    message.result = TestResult{0.25, 0.96875};
    EXPECT_EQ(DecodeTerminationMessage(EncodeTerminationMessage(message)).value(), message);
    message.result->models = {{0.5, 0.125, 0.9375}, {std::nullopt, 0.375, std::nullopt}};
    message.checkpoints = CheckpointStatus{3, 1, 2, "No space left on device", Step(40)};
    message.steps_total = 750;
    message.data_epoch = 2;
    message.steps_skipped = 3;
    message.relaunches = 1;
    message.history = {{3, 400, 9600, 0.5, 0.875, 1.5, 4800}, {4, 500, 9600, 0.25, {}, 1}};
    EXPECT_EQ(DecodeTerminationMessage(EncodeTerminationMessage(message)).value(), message);
  }
}

TEST(VerdictUnasked, LeavingOnRequestIsBelievedToWhoSaysThatItHeardOne) {
  const ExitVerdict left = ClassifyExit(kExitPreempted, 0, "");
  const ExitVerdict own_choice = {Outcome::kRetryable, ExitCause::kProgramExit};
  TerminationMessage message;
  message.outcome = Outcome::kPreempted;
  EXPECT_EQ(VerdictUnasked(left, EncodeTerminationMessage(message)), left);
  message.outcome = Outcome::kRetryable;
  EXPECT_EQ(VerdictUnasked(left, EncodeTerminationMessage(message)), own_choice);
  EXPECT_EQ(VerdictUnasked(left, ""), own_choice);
  EXPECT_EQ(VerdictUnasked(left, "saved, goodbye"), own_choice);
  for (const int code : {0, 1, 75, 76, 137}) {
    EXPECT_EQ(VerdictUnasked(ClassifyExit(code, 0, ""), ""), ClassifyExit(code, 0, "")) << code;
  }
}

TEST(TerminationMessage, IsOneReadableLine) {
  TerminationMessage message;
  message.reason = "peer lost";
  message.last_step = Step(7);
  message.last_checkpoint_step = Step(5);
  message.culprit_rank = 1;
  EXPECT_EQ(EncodeTerminationMessage(message),
            R"({"outcome":"retryable","reason":"peer lost","lastStep":7,"lastCheckpointStep":5,)"
            R"("culpritRank":1})");
}

TEST(TerminationMessage, ALongReasonIsCutToWhatKubernetesKeeps) {
  // One, two and three bytes a character, bytes that JSON writes as six, and invalid UTF-8, which
  // is written as three.
  for (const char* part : {"x", "\u00e9", "\u20ac", "\x01", "\"", "\xff"}) {
    for (const std::size_t count : {4000U, 4096U, 100000U}) {
      TerminationMessage message;
      message.last_step = Step(7);
      for (std::size_t i = 0; i < count; ++i) {
        message.reason += part;
      }
      const std::string text = EncodeTerminationMessage(message);
      EXPECT_LE(text.size(), kTerminationMessageBytesMax);
      const Result<TerminationMessage> decoded = DecodeTerminationMessage(text);
      ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
      EXPECT_EQ(decoded->last_step, Step(7));
      const bool is_whole = decoded->reason == message.reason;
      EXPECT_TRUE(is_whole || decoded->reason.ends_with("..."));
      // Not much is given away: the text is nearly as long as it may be.
      EXPECT_TRUE(is_whole || text.size() > kTerminationMessageBytesMax - 64) << text.size();
    }
  }
}

TEST(TerminationMessage, KeepsTheNewestDataEpochs) {
  TerminationMessage message;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    message.history.push_back({epoch, epoch + 1, 9600, 0.5, 0.875, 1.5});
  }
  const auto decoded = DecodeTerminationMessage(EncodeTerminationMessage(message));
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  ASSERT_EQ(decoded->history.size(), kTerminationHistoryMax);
  EXPECT_EQ(decoded->history.back().data_epoch, 19);
}

// A model for each rank, everything else at its longest: the pod's log has the reason whole.
TEST(TerminationMessage, HoldsAsManyModelsAsThereAreRanks) {
  TerminationMessage message;
  message.reason = std::string(kTerminationMessageBytesMax, 'x');
  const double third = 1.0 / 3;
  message.result = TestResult{third, third};
  message.result->models.assign(kModelsMax, {third * 1e-5, third * 1e-5, third});
  message.samples = SampleCounts{int64_t{1} << 60, int64_t{1} << 60, 0, 0};
  message.checkpoints = CheckpointStatus{999, 1, 2, std::string(999, 'x'), Step(999)};
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    message.history.push_back({epoch, 1'000'000, 1'000'000, third, third, 100 * third});
    message.history.back().loss_sample_count = 999'999;
  }
  message.history.front().timed_sample_count = 999'999;  // a process comes into one at most
  const std::string text = EncodeTerminationMessage(message);
  EXPECT_LE(text.size(), kTerminationMessageBytesMax);
  const auto decoded = DecodeTerminationMessage(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  ASSERT_EQ(decoded->result->models.size(), static_cast<std::size_t>(kModelsMax));
  EXPECT_EQ(decoded->result->models.back(), (ModelResult{3.33333e-06, 3.33333e-06, 0.333333}));
}

// The operator was rolled back, or not upgraded yet, when a pod of a later release ended.
TEST(TerminationMessage, OfALaterReleaseSaysWhatIsKnownToday) {
  const auto message = DecodeTerminationMessage(
      R"({"outcome":"permanent","reason":"no space","culpritRank":2,"lastStep":7,"newWord":[1],)"
      R"("samples":{"consumed":9,"expected":9,"lost":0,"repeated":0,"newCount":1},)"
      R"("result":{"testLoss":0.5,"testAccuracy":0.75,"newScore":0.5},)"
      R"("checkpoints":{"written":3,"failed":1,"skipped":0,"lastError":"full","newPath":"x"},)"
      R"("history":[{"dataEpoch":1,"step":2,"sampleCount":96,"seconds":1.5,"newLoss":1}]})");
  ASSERT_TRUE(message.ok()) << message.error().ToString();
  EXPECT_EQ(message->outcome, Outcome::kPermanent);
  EXPECT_EQ(message->reason, "no space");
  EXPECT_EQ(message->culprit_rank, 2);
  EXPECT_EQ(message->last_step, Step(7));
}

TEST(TerminationMessage, RefusesWhatIsNotOurs) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"Segmentation fault", "not valid JSON"},
      {"[]", "expected an object"},
      {"{}", "outcome: missing"},
      {R"({"outcome":"fine","reason":""})", "outcome: \"fine\" found, expected one of success"},
      {R"({"outcome":"success"})", "reason: missing"},
      {R"({"outcome":"success","reason":3})", "reason: 3 found"},
      {R"({"outcome":"success","reason":"","lastStep":-1})", "lastStep: -1 found"},
      {R"({"outcome":"success","reason":"","lastStep":"7"})", "lastStep: \"7\" found"},
      {R"({"outcome":"success","reason":"","stepsTotal":-1})", "stepsTotal: -1 found"},
      {R"({"outcome":"success","reason":"","dataEpoch":-1})", "dataEpoch: -1 found"},
      {R"({"outcome":"success","reason":"","stepsSkipped":-1})", "stepsSkipped: -1 found"},
      {R"({"outcome":"success","reason":"","relaunches":-1})", "relaunches: -1 found"},
      {R"({"outcome":"success","reason":"","culpritRank":4294967296})", "culpritRank"},
      {R"({"outcome":"success","reason":"","samples":{"lost":-1}})", "samples.lost: -1 found"},
      {R"({"outcome":"success","reason":"","result":[]})", "result: a list found"},
      {R"({"outcome":"success","reason":"","result":{"models":{"testLoss":[1]}}})",
       "result.models.testLoss: 1 numbers found"},
      {R"({"outcome":"success","reason":"","result":{"models":{"trainingLoss":["low"]}}})",
       "result.models.trainingLoss: \"low\" found"},
      {R"({"outcome":"success","reason":"","trainingLoss":"low"})", "trainingLoss: \"low\" found"},
      {R"({"outcome":"success","reason":"","checkpoints":{"failed":-1}})",
       "checkpoints.failed: -1 found"},
      {R"({"outcome":"success","reason":"","history":[{}]})", "history[0].dataEpoch: missing"},
      {std::string(5000, ' '), "5000 bytes found, expected at most 4096"},
  };
  for (const auto& [text, why] : cases) {
    const Result<TerminationMessage> message = DecodeTerminationMessage(text);
    ASSERT_FALSE(message.ok()) << text;
    EXPECT_EQ(message.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(message.error().ToString(), HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace lockstep
