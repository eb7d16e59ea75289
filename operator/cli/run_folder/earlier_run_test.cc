#include "operator/cli/run_folder/earlier_run.h"

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "operator/api/job_manifest.h"
#include "operator/cli/job_file.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

class EarlierRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "earlier-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  TrainingJob Job() {
    return ReadManifest(
               "apiVersion: lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: tested}\n"
               "spec:\n  roles:\n  - name: worker\n    replicas: 2\n"
               "    template: {spec: {containers: [{name: trainer, command: [a]}]}}\n",
               "job.yaml")
        .jobs.at(0);
  }

  std::string folder_;
};

TEST_F(EarlierRunTest, JobIsReadBackAsItWasWritten) {
  ASSERT_TRUE(WriteJobRecord(folder_, Job(), Json(), "/data").ok());
  const auto earlier = ReadEarlierRun(folder_);
  ASSERT_TRUE(earlier.ok()) << earlier.error().ToString();
  EXPECT_EQ(earlier->folder, "/data");
  const Manifest manifest = ReadManifest(earlier->job_text, "job.json");
  ASSERT_TRUE(manifest.ok()) << FormatProblems(manifest);
  EXPECT_EQ(manifest.jobs[0], Job());
}

// A default that nobody wrote would be an unknown field of whatever takes its owner's place.
TEST_F(EarlierRunTest, TrainingIsNotedAsItWasWritten) {
  const std::string text =
      "apiVersion: lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: tested}\n"
      "spec:\n  roles:\n  - {name: worker, replicas: 2}\n"
      "  training:\n    steps: 5\n    globalBatchSize: 4\n"
      "    model: {inputShape: [4], layers: [{type: Dense, units: 2}]}\n"
      "    loss: {type: SparseCategoricalCrossentropy, fromLogits: true}\n"
      "    optimizer: {type: Adam}\n"
      "    dataset: {format: idx, images: i, labels: l}\n";
  Manifest manifest = ReadManifest(text, "job.yaml");
  ASSERT_TRUE(manifest.ok()) << FormatProblems(manifest);
  ASSERT_TRUE(WriteJobRecord(folder_, manifest.jobs[0], manifest.documents[0], "/data").ok());
  const EarlierRun earlier = ReadEarlierRun(folder_).value();
  EXPECT_EQ(ReadManifest(earlier.job_text, "job.json").jobs.at(0), manifest.jobs[0]);
  JobSource other;
  other.settings = {ParseSetting("spec.training.optimizer.type=SGD").value()};
  const auto replaced = ReadEarlierJob(earlier, other);
  ASSERT_TRUE(replaced.ok()) << replaced.error().message();
}

TEST_F(EarlierRunTest, JobThatWasMadeShorterIsToldWithoutWhatItAskedFor) {
  ASSERT_TRUE(WriteJobRecord(folder_, Job(), Json(), "/data").ok());
  std::ofstream(folder_ + "/summary.json")
      << R"({"outcome": "succeeded", "reason": "", "steps": 188, "stepsTotal": 94})";
  EXPECT_THAT(DescribeEarlierRun(ReadEarlierRun(folder_).value(), {{Step(188), "", {}}}, false),
              HasSubstr("succeeded after 188 steps; its"));
}

TEST_F(EarlierRunTest, EndIsTold) {
  ASSERT_TRUE(WriteJobRecord(folder_, Job(), Json(), "/data").ok());
  EXPECT_EQ(DescribeEarlierRun(ReadEarlierRun(folder_).value(), {}, true),
            "an earlier run in this folder did not finish");
  std::ofstream(folder_ + "/summary.json")
      << R"({"outcome": "stopped", "reason": "", "steps": 20, "stepsTotal": 120})";
  EXPECT_EQ(
      DescribeEarlierRun(ReadEarlierRun(folder_).value(), {{Step(20), "", {}}}, false),
      "an earlier run in this folder stopped after 20 of 120 steps; its newest checkpoint is of "
      "step 20");
  EXPECT_THAT(DescribeEarlierRun(
                  ReadEarlierRun(folder_).value(), {{Step(16), "", 0}, {Step(20), "", 1}}, false),
              ::testing::HasSubstr("its newest checkpoint is of steps 16 to 20"));
  EXPECT_EQ(DescribeEarlierRun(ReadEarlierRun(folder_).value(), {}, false),
            "an earlier run in this folder stopped after 20 of 120 steps");
}

// What a command keeps, and where, only its program knows.
TEST_F(EarlierRunTest, MissingCheckpointIsToldOfATrainingAlone) {
  EarlierRun earlier;
  earlier.outcome = "succeeded";
  earlier.steps = 40;
  earlier.job_text = R"({"spec": {"training": {}}})";
  EXPECT_EQ(DescribeEarlierRun(earlier, {}, false),
            "an earlier run in this folder succeeded after 40 steps; it has no checkpoint");
  earlier.job_text = R"({"spec": {}})";
  EXPECT_EQ(DescribeEarlierRun(earlier, {}, false),
            "an earlier run in this folder succeeded after 40 steps");
  EXPECT_EQ(DescribeEarlierRun(earlier, {}, true),
            "an earlier run in this folder succeeded after 40 steps; LOCKSTEP_CHECKPOINT_DIR is "
            "empty now");
}

// Another job, a command for one, may go on in the folder: the checkpoints are the earlier one's.
TEST_F(EarlierRunTest, CheckpointsAreWhereTheEarlierJobKeptThem) {
  EarlierRun earlier;
  earlier.job_text = R"({"spec": {"training": {"checkpoint": {"directory": "kept"}}}})";
  EXPECT_EQ(CheckpointFolderOf(earlier, "/runs/a"), "/runs/a/kept");
  earlier.job_text = R"({"spec": {"training": {"checkpoint": {"directory": "/kept"}}}})";
  EXPECT_EQ(CheckpointFolderOf(earlier, "/runs/a"), "/kept");
  earlier.job_text = R"({"spec": {"training": {}}})";
  EXPECT_EQ(CheckpointFolderOf(earlier, "/runs/a"), "/runs/a/checkpoints");
  for (const char* text : {R"({"spec": {"roles": []}})", R"({"spec": {"training": 3}})", "[]"}) {
    earlier.job_text = text;
    EXPECT_EQ(CheckpointFolderOf(earlier, "/runs/a"), "") << text;
  }
}

TEST_F(EarlierRunTest, RunOfAnotherJobIsNotGoneOnWith) {
  EarlierRun earlier;
  earlier.job_text = R"({"metadata": {"name": "mnist"}})";
  TrainingJob job;
  job.metadata.name = "mnist";
  EXPECT_TRUE(CheckSameJob(earlier, "r1", job).ok());
  job.metadata.name = "any";
  EXPECT_EQ(
      CheckSameJob(earlier, "r1", job).error().message(),
      "--resume r1: that run belongs to the job \"mnist\", but the manifest has the job \"any\", "
      "which would overwrite that run; start it without --resume");
}

TEST_F(EarlierRunTest, FolderWithoutARunIsTold) {
  const auto earlier = ReadEarlierRun(folder_);
  ASSERT_FALSE(earlier.ok());
  EXPECT_EQ(earlier.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(earlier.error().message(), HasSubstr("no run in " + folder_));
}

TEST_F(EarlierRunTest, PipeInPlaceOfARecordIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(JobRecordFile(folder_).c_str(), 0600), 0);
  const auto earlier = ReadEarlierRun(folder_);
  ASSERT_FALSE(earlier.ok());
  EXPECT_THAT(earlier.error().message(), HasSubstr("is a pipe or a device, expected a file"));
}

TEST_F(EarlierRunTest, StrangeRecordIsCorrupt) {
  std::ofstream(JobRecordFile(folder_)) << "[]";
  EXPECT_EQ(ReadEarlierRun(folder_).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace lockstep::control
