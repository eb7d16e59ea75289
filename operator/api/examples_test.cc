#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "operator/api/decode_job.h"
#include "operator/api/job/encode.h"
#include "operator/api/job_manifest.h"

namespace lockstep::control {
namespace {

// The job of a file under examples/, which must be without a problem.
TrainingJob ReadExample(const std::string& name) {
  const std::string path = RepositoryFile("examples/" + name);
  const Result<std::string> text = ReadFile(path, kManifestBytesMax);
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  Manifest manifest = ReadManifest(*text, name);
  EXPECT_EQ(FormatProblems(manifest), "");
  EXPECT_EQ(manifest.jobs.size(), 1U);
  return manifest.jobs.at(0);
}

TEST(Examples, MnistIsTheDocumentedTraining) {
  const TrainingJob job = ReadExample("mnist.yaml");
  EXPECT_EQ(job.metadata.name, "mnist");
  EXPECT_EQ(job.spec.strategy, Strategy::kMultiWorkerMirrored);
  EXPECT_EQ(job.WorldSize(), 3);
  ASSERT_TRUE(job.spec.training.has_value());
  const TrainingSpec& training = *job.spec.training;
  EXPECT_EQ(training.length, (TrainingLength{LengthUnit::kEpochs, 8}));
  EXPECT_EQ(training.global_batch_size, 96);
  EXPECT_EQ(training.dataset.test_samples, 1000);
  EXPECT_EQ(training.model.layers.size(), 5U);
  EXPECT_EQ(InferShapes(training.model).value().back().output, std::vector<int64_t>{10});
}

TEST(Examples, AnyCommandNamesItsProgram) {
  const TrainingJob job = ReadExample("any-command.yaml");
  EXPECT_FALSE(job.spec.training.has_value());
  EXPECT_EQ(job.WorldSize(), 2);
  const RoleSpec* worker = job.FindRole(Role::kWorker);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->pod.command, (std::vector<std::string>{"sh", "-c"}));
  EXPECT_EQ(worker->pod.args.size(), 1U);
  EXPECT_EQ(worker->pod.env.at("GREETING"), "hello from the manifest");
  EXPECT_EQ(worker->pod.termination_grace, std::chrono::seconds(10));
}

TEST(Examples, EncodeThenDecodeGivesTheSameJob) {
  for (const char* name : {"mnist.yaml", "any-command.yaml"}) {
    const TrainingJob job = ReadExample(name);
    const DecodedJob again = DecodeTrainingJob(EncodeTrainingJob(job));
    EXPECT_TRUE(again.ok()) << again.errors.front().ToString();
    EXPECT_EQ(again.job, job) << name;
  }
}

}  // namespace
}  // namespace lockstep::control
