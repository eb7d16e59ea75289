#include <string>

#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "common/contract/status/termination_message.h"
#include "operator/cli/run/run_record.h"
#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

// A command's run of one worker.
class RunRecordOfCommand : public ::testing::Test {
 protected:
  void SetUp() override { Start("job-worker-0", 1000); }

  void Start(const std::string& pod, int64_t when_ms) {
    PodEvent event;
    event.change = PodChange::kStarted;
    event.pod.name = pod;
    event.pod.status.pid = 100;
    event.at = At(when_ms);
    record_.OnPodEvent(event);
  }

  void End(const std::string& pod, int exit_code, const std::string& message, bool was_asked) {
    PodEvent event;
    event.change = PodChange::kEnded;
    event.pod.name = pod;
    event.pod.is_deleting = was_asked;
    event.pod.status.termination = kube::ContainerTermination{};
    event.pod.status.termination->exit_code = exit_code;
    event.pod.status.termination->message = message;
    event.at = At(4000);
    record_.OnPodEvent(event);
  }

  void Report(int64_t step) {
    StatusArrival arrival;
    arrival.document.pod = "job-worker-0";
    arrival.document.task = kWorker0;
    arrival.document.step = Step(step);
    arrival.received = At(2000);
    record_.OnReport(arrival);
  }

  RunSummary Summary() {
    RunSummary summary;
    record_.FillSummary(At(9000), &summary);
    return summary;
  }

  RunRecord record_{RunRecordOptions{std::nullopt, 1, At(1000), "/run"}};
};

// A stop after a checkpoint that failed must not look like one that can be gone on from.
TEST_F(RunRecordOfCommand, LastWordsOnACheckpointThatFailedAreKept) {
  EXPECT_TRUE(EncodeSummary(Summary())["checkpointsFailed"].is_null());
  EXPECT_TRUE(EncodeSummary(Summary())["checkpointError"].is_null());
  TerminationMessage message;
  message.outcome = Outcome::kPreempted;
  message.reason = "asked to stop after 11 steps, which are not saved: no space";
  message.last_step = Step(11);
  message.checkpoints = CheckpointStatus{0, 4, 0, "no space", std::nullopt};
  End("job-worker-0", 143, EncodeTerminationMessage(message), true);
  EXPECT_TRUE(record_.has_unsaved_model());
  RunSummary summary = Summary();
  EXPECT_EQ(WhyUnsaved(summary, std::nullopt, true),
            ", and the checkpoint could not be written by job-worker-0: no space");
  EXPECT_EQ(EncodeSummary(summary)["checkpointsFailed"], 4);
  EXPECT_EQ(EncodeSummary(summary)["checkpointError"], "no space");
  const std::string text = FormatSummary(summary);
  EXPECT_NE(text.find("ended on request (exit code 143): asked to stop after 11 steps"),
            std::string::npos)
      << text;
}

TEST_F(RunRecordOfCommand, ProgramThatComesBackFromALossWithLessIsTold) {
  Report(40);
  Report(7);  // nobody was lost: it counts anew
  Report(40);
  EXPECT_TRUE(record_.TakeRemarks().empty());
  End("job-worker-0", 137, "", false);
  Start("job-worker-0-r1", 5000);
  Report(39);  // which a survivor may lack
  EXPECT_TRUE(record_.TakeRemarks().empty());
  Report(45);
  Report(13);
  const auto remarks = record_.TakeRemarks();
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0].text,
            "after a rank was lost, the program continues at step 13; it had reached step 45: the "
            "unsaved steps are lost");
  Report(7);
  EXPECT_TRUE(record_.TakeRemarks().empty());
}

// Whose end was the reason is told from those who were only asked to follow.
TEST_F(RunRecordOfCommand, WhoWasKilledIsToldFromWhoWasAskedToEnd) {
  Start("job-worker-1", 1001);
  End("job-worker-1", 143, "killed by SIGTERM", false);
  End("job-worker-0", 143, "killed by SIGTERM", true);
  const std::string text = FormatSummary(Summary());
  EXPECT_NE(text.find("worker-0      ended on request (exit code 143)\n"), text.npos) << text;
  EXPECT_NE(text.find("worker-1      killed by SIGTERM\n"), text.npos) << text;
}

}  // namespace
}  // namespace lockstep::control
