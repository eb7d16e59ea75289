#include "operator/reconcile/failure/failure.h"

#include <gtest/gtest.h>

#include "common/contract/status/termination_message.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

// A pod of several processes: the rank that failed is named, once, with its container.
TEST(EndedFailure, SentenceNamesTheRankThatFailedAndWhatItSaid) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].processes = 2;
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-1", 1);
  TerminationMessage message;
  message.reason = "ValueError: label 11 is out of range";
  message.culprit_rank = 3;
  message.tail = "Traceback\nValueError: label 11 is out of range\n";
  kube::ContainerTermination& end = *world.Find("mnist-worker-1")->status.termination;
  end.message = EncodeTerminationMessage(message);
  end.container = "main";
  world.Step();
  world.Advance(kEchoPatience);

  const Decision decision = world.Step();

  EXPECT_EQ(
      MessageOf(decision.status, ConditionType::kFailed),
      "pod mnist-worker-1 (rank 3) container main ended with exit code 1: ValueError: label 11 "
      "is out of range, cause program_exit; earlier incidents: 0 of 6 allowed by "
      "runPolicy.backoffLimit");
  ASSERT_TRUE(decision.status.last_failure.has_value());
  EXPECT_EQ(decision.status.last_failure->pod, "mnist-worker-1");
  EXPECT_EQ(decision.status.last_failure->tail, *message.tail);
}

TEST(EndedFailure, WordsThatOnlyRepeatTheCodeAreLeftOut) {
  TestWorld world(MakeCommandJob(1));
  world.Launch();
  world.Exit("mnist-worker-0", 3);
  TerminationMessage message;
  message.reason = "exit code 3";
  message.culprit_rank = 0;
  world.Find("mnist-worker-0")->status.termination->message = EncodeTerminationMessage(message);

  EXPECT_EQ(
      MessageOf(world.Step().status, ConditionType::kFailed),
      "pod mnist-worker-0 (rank 0) ended with exit code 3, cause program_exit; earlier incidents: "
      "0 of 6 allowed by runPolicy.backoffLimit");
}

// A program that always leaves so would start again for ever.
TEST(EndedFailure, WhoLeavesThoughNobodyAskedIsAnIncidentAndWhoWasAskedIsNot) {
  for (const bool was_asked : {false, true}) {
    TestWorld world(MakeCommandJob(1));
    world.Launch();
    world.Exit("mnist-worker-0", 42);
    TerminationMessage message;
    message.outcome = was_asked ? Outcome::kPreempted : Outcome::kRetryable;
    message.reason = "exit code 42, which says that it was asked to end";  // as the runtime says it
    world.Find("mnist-worker-0")->status.termination->message = EncodeTerminationMessage(message);

    const Decision decision = world.Step();

    EXPECT_EQ(CountedIncidents(decision.status.incidents), was_asked ? 0 : 1);
    EXPECT_EQ(FreeIncidents(decision.status.incidents), was_asked ? 1 : 0);
    EXPECT_EQ(DescribeRestarts(decision.status), was_asked ? "preempted=1" : "program_exit=1");
    EXPECT_EQ(MessageOf(decision.status, ConditionType::kRestarting)
                  .starts_with("pod mnist-worker-0 (rank 0) ended with exit code 42, although "
                               "nobody had asked it to end, cause program_exit; "),
              !was_asked)
        << MessageOf(decision.status, ConditionType::kRestarting);
  }
}

// Nobody but the runtime knows of a signal that was not sent by way of the API server.
TEST(EndedFailure, WhoEndsWithZeroBecauseItWasAskedToHasOnlyObeyed) {
  for (const bool was_asked : {false, true}) {
    TestWorld world(MakeCommandJob(1));
    world.Launch();
    world.Exit("mnist-worker-0", 0);
    TerminationMessage message;
    message.outcome = was_asked ? Outcome::kPreempted : Outcome::kSuccess;
    message.reason = was_asked ? "all processes ended when asked to" : "all processes completed";
    world.Find("mnist-worker-0")->status.termination->message = EncodeTerminationMessage(message);

    const Decision decision = world.Step();

    EXPECT_EQ(DescribeRestarts(decision.status), was_asked ? "preempted=1" : "");
    EXPECT_EQ(CountedIncidents(decision.status.incidents), 0);
    EXPECT_EQ(MessageOf(decision.status, ConditionType::kSucceeded).empty(), was_asked);
  }
}

// The trainer's last line of good news is what it did last, not why it ended.
TEST(EndedFailure, GoodNewsIsNoReason) {
  TestWorld world(MakeTrainingJob(1));
  world.Launch();
  world.Exit("mnist-worker-0", 3);
  world.Find("mnist-worker-0")->status.termination->message =
      "2026-11-23T15:54:38.123Z info  all ranks joined rank=0\n";

  EXPECT_EQ(
      MessageOf(world.Step().status, ConditionType::kFailed),
      "pod mnist-worker-0 (rank 0) ended with exit code 3, cause program_exit; earlier incidents: "
      "0 of 6 allowed by runPolicy.backoffLimit");
}

}  // namespace
}  // namespace lockstep::control
