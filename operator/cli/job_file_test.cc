#include "operator/cli/job_file.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kJob =
    "apiVersion: lockstep.dev/v1\n"
    "kind: TrainingJob\n"
    "metadata: {name: tested}\n"
    "spec:\n"
    "  roles:\n"
    "  - name: worker\n"
    "    replicas: 2\n"
    "    template: {spec: {containers: [{name: trainer, image: none, command: [a]}]}}\n";

class JobFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "job-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    source_.file = folder_ + "/job.yaml";
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& text) { std::ofstream(source_.file) << text; }

  std::string folder_;
  JobSource source_;
};

TEST_F(JobFile, SettingsAndWorkersChangeTheJob) {
  Write(kJob);
  source_.settings = {ParseSetting("roles[worker].gpus=2").value()};
  source_.workers = 3;
  const auto single = ReadSingleJob(source_);
  ASSERT_TRUE(single.ok()) << single.error().message();
  EXPECT_EQ(single->job.spec.roles[0].gpus, 2);
  EXPECT_EQ(single->job.spec.roles[0].replicas, 3);
  EXPECT_EQ(single->folder, folder_);
}

TEST_F(JobFile, BadSettingNamesItsPathAndTheOption) {
  Write(kJob);
  source_.settings = {ParseSetting("roles[worker].replicas=many").value()};
  EXPECT_THAT(ReadSingleJob(source_).error().message(),
              HasSubstr("--set: spec.roles[0].replicas: \"many\" found, expected a whole number"));
}

TEST_F(JobFile, SkippedDocumentsAreNamedWithTheirLine) {
  Write(std::string(kJob) + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n");
  const auto single = ReadSingleJob(source_);
  ASSERT_TRUE(single.ok()) << single.error().message();
  EXPECT_THAT(
      single->skipped,
      ElementsAre(source_.file + ":9: ConfigMap \"settings\" skipped: only TrainingJobs and "
                                 "TrainingQueues are read"));
}

TEST_F(JobFile, QueueIsSkippedWithWhatItIsFor) {
  Write(std::string(kJob) +
        "---\napiVersion: lockstep.dev/v1\nkind: TrainingQueue\nmetadata: {name: team}\n"
        "spec: {}\n");
  const auto single = ReadSingleJob(source_);
  ASSERT_TRUE(single.ok()) << single.error().message();
  EXPECT_THAT(single->skipped,
              ElementsAre(source_.file +
                          ":9: TrainingQueue \"team\" skipped: queues are used only on a cluster"));
}

TEST_F(JobFile, JobOfAnotherOperatorIsToldOfConvert) {
  Write("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {}\n");
  EXPECT_THAT(ReadSingleJob(source_).error().message(),
              HasSubstr("; to convert a TFJob, PyTorchJob"));
  Write("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
  EXPECT_THAT(ReadSingleJob(source_).error().message(), ::testing::Not(HasSubstr("convert")));
}

TEST_F(JobFile, DashReadsStandardInputAndStartsInTheWorkingDirectory) {
  std::array<int, 2> fds{};
  ASSERT_EQ(::pipe(fds.data()), 0);
  ASSERT_GT(::write(fds[1], kJob, std::string_view(kJob).size()), 0);
  ::close(fds[1]);
  const int before = ::dup(STDIN_FILENO);
  ::dup2(fds[0], STDIN_FILENO);
  source_.file = "-";
  const auto single = ReadSingleJob(source_);
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ::close(fds[0]);
  ASSERT_TRUE(single.ok()) << single.error().message();
  EXPECT_EQ(single->job.metadata.name, "tested");
  EXPECT_EQ(single->folder, std::filesystem::current_path().string());
}

}  // namespace
}  // namespace lockstep::control
