#include "operator/cli/run_folder/saved_state.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <stdlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/hashed_document.h"
#include "common/contract/training/state_fingerprint.h"

namespace lockstep::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TrainingJob MakeJob(int64_t seed) {
  TrainingJob job;
  RoleSpec worker;
  worker.name = Role::kWorker;
  worker.replicas = 3;
  job.spec.roles = {worker};
  job.spec.training = TrainingSpec();
  job.spec.training->seed = seed;
  job.spec.training->model.input_shape = {4};
  job.spec.training->model.layers = {DenseLayer{2}};
  return job;
}

class SavedStateTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "saved-state-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  // As the trainer leaves one; `part`: of the samples, empty where all are everybody's.
  void Save(const std::string& name, int64_t seed, const std::string& part = "") {
    Json fingerprint = FingerprintOf(*MakeJob(seed).spec.training);
    fingerprint["data"] = {{"samples", 9000}, {"crc32", 17}};
    if (!part.empty()) {
      fingerprint["data"]["part"] = part;
    }
    Json manifest = Json::object();
    manifest["formatVersion"] = 2;
    manifest["fingerprint"] = fingerprint;
    Write(name, DumpHashed(manifest));
  }

  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_ + "/" + name);
    std::ofstream(folder_ + "/" + name + "/manifest.json") << text;
  }

  std::string ProblemOf(const TrainingJob& job, const std::string& within = "") {
    const Status status = CheckSavedState(job, folder_ + within);
    return status.ok() ? "" : status.error().message();
  }

  std::string folder_;
};

TEST_F(SavedStateTest, EditThatTheNewestDoesNotFitIsRefusedWithItsFolderAndBothValues) {
  Save("step-00000020", 5);
  Save("step-00000040", 7);
  EXPECT_EQ(ProblemOf(MakeJob(7)), "");
  EXPECT_EQ(ProblemOf(MakeJob(5)),
            folder_ + "/step-00000040: the newest checkpoint does not fit this job; name another " +
                "checkpoint directory to start afresh: spec.training.seed: 5 found, the saved " +
                "state was made with 7");
}

TEST_F(SavedStateTest, WhatATrainingMayGoOnWithIsNoProblem) {
  Save("step-00000040", 7);
  TrainingJob job = MakeJob(7);
  job.spec.roles[0].replicas = 2;
  job.spec.training->global_batch_size = 5;
  job.spec.training->length = {LengthUnit::kSteps, 77};
  EXPECT_EQ(ProblemOf(job), "");
}

// It is the trainer that knows an older one to take, or what is to be done.
TEST_F(SavedStateTest, NoneOrOneThatCannotBeReadIsLeftToTheTrainer) {
  EXPECT_EQ(ProblemOf(MakeJob(5)), "");
  Save("step-00000040", 7);
  std::fstream file(folder_ + "/step-00000040/manifest.json");
  file.seekp(0, std::ios::end);
  file.seekp(-3, std::ios::cur);
  file << "0";
  file.close();
  EXPECT_EQ(ProblemOf(MakeJob(5)), "");
  Write("step-00000060", "{}");
  EXPECT_EQ(ProblemOf(MakeJob(5)), "");
  EXPECT_EQ(ProblemOf(MakeJob(5), "/nosuch"), "");
}

TEST_F(SavedStateTest, ModelOfEachRankBelongsToOneNumberOfRanks) {
  TrainingJob job = MakeJob(7);
  job.spec.training->variables = VariablePlacement::kIndependent;
  Save("rank-1/step-00000040", 8, "1 of 3");  // a seed of its own
  EXPECT_EQ(ProblemOf(job), "");
  job.spec.roles[0].replicas = 2;
  EXPECT_THAT(ProblemOf(job),
              AllOf(HasSubstr("/rank-1/step-00000040: "),
                    HasSubstr("number of ranks: 2 found, the saved state was made with 3")));
}

// That of rank 2 was saved last, and the job has no such rank any more.
TEST_F(SavedStateTest, ModelOfARankThatTheJobLacksIsToldByTheNumberOfRanks) {
  TrainingJob job = MakeJob(7);
  job.spec.training->variables = VariablePlacement::kIndependent;
  Save("rank-2/step-00000040", 9, "2 of 3");
  job.spec.roles[0].replicas = 2;
  EXPECT_THAT(ProblemOf(job),
              AllOf(HasSubstr("number of ranks: 2 found, the saved state was made with 3"),
                    Not(HasSubstr("2 of"))));
}

// And not what a rank makes of it.
TEST_F(SavedStateTest, SeedsOfModelsAreToldAsTheJobHasThem) {
  TrainingJob job = MakeJob(5);
  job.spec.training->variables = VariablePlacement::kIndependent;
  Save("rank-2/step-00000040", 9, "2 of 3");
  EXPECT_THAT(ProblemOf(job),
              HasSubstr("spec.training.seed: 5 found, the saved state was made with 7"));
}

TEST_F(SavedStateTest, SeedOfAModelBeyondTheLargestIsToldAsTheJobHasIt) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  TrainingJob job = MakeJob(kLargest);
  job.spec.training->variables = VariablePlacement::kIndependent;
  Save("rank-2/step-00000040", 1, "2 of 3");  // as SpecOfModel counts on
  EXPECT_EQ(ProblemOf(job), "");
  job.spec.training->seed = 7;
  EXPECT_THAT(ProblemOf(job),
              HasSubstr("7 found, the saved state was made with " + std::to_string(kLargest)));
}

TEST_F(SavedStateTest, ModelOfOneRankAloneIsNoneOfSeveralNorTheOtherWayRound) {
  TrainingJob job = MakeJob(7);
  job.spec.training->variables = VariablePlacement::kIndependent;
  Save("rank-0/step-00000040", 7);
  EXPECT_THAT(ProblemOf(job),
              HasSubstr("number of ranks: 3 found, the saved state was made with 1"));
  job.spec.roles[0].replicas = 1;
  EXPECT_EQ(ProblemOf(job), "");
  Save("rank-0/step-00000060", 7, "0 of 2");
  EXPECT_THAT(ProblemOf(job),
              HasSubstr("number of ranks: 1 found, the saved state was made with 2"));
}

TEST_F(SavedStateTest, OneModelForAllIsNoModelOfEachNorTheOtherWayRound) {
  TrainingJob job = MakeJob(7);
  Save("rank-1/step-00000040", 8, "1 of 3");
  EXPECT_THAT(ProblemOf(job),
              AllOf(HasSubstr("/rank-1/step-00000040: "),
                    HasSubstr("spec.strategy: MultiWorkerMirrored found, expected Independent")));
  std::filesystem::remove_all(folder_ + "/rank-1");
  Save("step-00000040", 7);
  job.spec.training->variables = VariablePlacement::kIndependent;
  EXPECT_THAT(ProblemOf(job),
              HasSubstr("spec.strategy: Independent found, expected a different strategy"));
}

}  // namespace
}  // namespace lockstep::control
