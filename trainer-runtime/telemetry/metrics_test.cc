#include "trainer-runtime/telemetry/metrics.h"

#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(Metrics, EverySeriesIsThereBeforeAnythingHappened) {
  const Metrics metrics;
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_samples_total 0\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_phase_seconds_count{phase=\"communicate\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_recoveries_total{cause=\"peer_silent\"} 0\n"));
}

TEST(Metrics, StepCountsSamplesAndTimesOfEachPhase) {
  Metrics metrics;
  StepDurations durations;
  durations.data = milliseconds(1);
  durations.compute = milliseconds(20);
  durations.communicate = milliseconds(3);
  durations.update = milliseconds(4);
  metrics.StepCompleted({Step(1), 0, 32, 0.75, std::nullopt, durations});
  metrics.StepCompleted({Step(2), 0, 32, 0.5, std::nullopt, durations});
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_samples_total 64\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_training_loss 0.5\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_phase_seconds_count{phase=\"data\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_phase_seconds_sum{phase=\"compute\"} 0.04\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_seconds_count 2\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_seconds_bucket{le=\"0.025\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_seconds_bucket{le=\"0.05\"} 2\n"));
}

TEST(Metrics, SkippedStepsAreCountedAndTheLossScaleIsTheLastOne) {
  Metrics metrics;
  EXPECT_THAT(metrics.RenderText(), HasSubstr("lockstep_steps_skipped_total 0\n"));
  CompletedStep step;
  step.is_skipped = true;
  step.loss_scale = 32768;
  metrics.StepCompleted(step);
  step.is_skipped = false;
  metrics.StepCompleted(step);
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_steps_skipped_total 1\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_loss_scale_ratio 32768\n"));
}

// As of a program on liblockstep, which tells its steps and not where their time went.
TEST(Metrics, StepWithoutTimesIsInNoTime) {
  Metrics metrics;
  CompletedStep step;
  step.step = Step(7);
  step.own_sample_count = 32;
  metrics.StepCompleted(step);
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_training_step 7\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_samples_total 32\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_seconds_count 0\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_step_phase_seconds_count{phase=\"compute\"} 0\n"));
}

TEST(Metrics, GaugesShowTheLastValue) {
  Metrics metrics;
  metrics.SetEpoch(Epoch(4));
  metrics.SetPeers(PeerCounts{2, 0, 1, 0});
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_rendezvous_epoch 4\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_peers{state=\"connected\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_peers{state=\"lost\"} 1\n"));
}

TEST(Metrics, RecoveriesAndCheckpointsAreCounted) {
  Metrics metrics;
  metrics.Recovered(RecoveryCause::kPeerClosed, milliseconds(700));
  EXPECT_THAT(metrics.RenderText(), Not(HasSubstr("lockstep_last_checkpoint")));
  metrics.CheckpointWritten(milliseconds(30), WallTime(std::chrono::seconds(1'600'000'000)));
  metrics.CheckpointWritten(milliseconds(30), WallTime(std::chrono::seconds(1'700'000'000)));
  metrics.CheckpointFailed();
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_recoveries_total{cause=\"peer_closed\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_recovery_seconds_bucket{le=\"0.75\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_checkpoint_seconds_count 2\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_last_checkpoint_timestamp_seconds 1700000000\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_checkpoint_failures_total 1\n"));
}

TEST(Metrics, PageSaysWhichVersionItIsOf) {
  EXPECT_THAT(Metrics().RenderText(),
              MatchesRegex("(.|\n)*lockstep_build_info.version=\"[0-9.]+\". 1\n(.|\n)*"));
}

TEST(Metrics, PageOfGpusLeavesOutWhatNobodyTells) {
  EXPECT_EQ(RenderGpuPage({}), "");
  const std::string page = RenderGpuPage({{"GPU-a", 0.5, 1024}, {"MIG-b", std::nullopt, 2048}});
  EXPECT_THAT(page, HasSubstr("lockstep_gpu_busy_ratio{uuid=\"GPU-a\"} 0.5\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_gpu_memory_bytes{uuid=\"MIG-b\"} 2048\n"));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_gpu_busy_ratio{uuid=\"MIG-b\"}")));
}

TEST(Metrics, PageHasOneHelpAndTypeForEachNameAndOnlyKnownLabels) {
  Metrics metrics;
  metrics.Recovered(RecoveryCause::kPeerSilent, milliseconds(1));
  std::istringstream lines(metrics.RenderText());
  const std::regex sample(
      R"(lockstep_[a-z_]+(\{(phase|state|cause|verdict|version|le|phase="[a-z]+",le)="[^"]*"\})?)"
      R"( \S+)");
  std::set<std::string> headers;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) {
      EXPECT_TRUE(headers.insert(line).second) << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, sample)) << line;
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
