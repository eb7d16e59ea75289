#include "operator/cli/run/data_files.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>
#include <vector>
#include <zlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

std::string Header(const std::vector<uint32_t>& shape, char type = 8) {
  std::string bytes{'\0', '\0', type, static_cast<char>(shape.size())};
  for (const uint32_t length : shape) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      bytes.push_back(static_cast<char>(length >> shift & 0xffU));
    }
  }
  return bytes;
}

// The whole file: zeros behind the header.
std::string File(const std::vector<uint32_t>& shape) {
  std::size_t count = 1;
  for (const uint32_t length : shape) {
    count *= length;
  }
  return Header(shape) + std::string(count, '\0');
}

class CheckDataFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "data-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    spec_.model.input_shape = {28, 28, 1};
    spec_.dataset.train = {"images", "labels"};
    Write("images", File({100, 28, 28}));
    Write("labels", File({100}));
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }

  void WriteGzip(const std::string& name, const std::string& bytes) {
    const gzFile file = ::gzopen((folder_ + "/" + name).c_str(), "wb");
    LOCKSTEP_CHECK(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) > 0,
                   "gzwrite");
    ::gzclose(file);
  }

  // Every problem, the folder taken out of it.
  std::vector<std::string> Problems() {
    std::vector<std::string> texts;
    for (const Error& error : CheckDataFiles(spec_, folder_, world_size_)) {
      std::string text = error.ToString();
      for (std::size_t at = 0; (at = text.find(folder_ + "/")) != std::string::npos;) {
        text.erase(at, folder_.size() + 1);
      }
      texts.push_back(text);
    }
    return texts;
  }

  std::string folder_;
  int64_t world_size_ = 3;
  TrainingSpec spec_;
};

TEST_F(CheckDataFilesTest, GoodFilesAreFinePlainAndGzip) {
  EXPECT_THAT(Problems(), IsEmpty());
  WriteGzip("packed", File({100, 784}));
  spec_.dataset.train.images = folder_ + "/packed";
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckDataFilesTest, EveryMissingFileIsNamedWithItsField) {
  spec_.dataset.train = {"a", "b"};
  spec_.dataset.test = IdxFiles{"images", "c"};
  EXPECT_THAT(Problems(),
              ElementsAre("spec.training.dataset.images: a: no such file, expected an IDX file",
                          "spec.training.dataset.labels: b: no such file, expected an IDX file",
                          "spec.training.dataset.test.labels: c: no such file, expected an IDX "
                          "file"));
}

TEST_F(CheckDataFilesTest, WhatIsNoFileIsNotOpened) {
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder_ + "/folder");
  spec_.dataset.train = {"pipe", "folder"};
  EXPECT_THAT(
      Problems(),
      ElementsAre(
          "spec.training.dataset.images: pipe: a pipe or device found, expected an IDX file",
          "spec.training.dataset.labels: folder: a folder found, expected an IDX file"));
}

TEST_F(CheckDataFilesTest, PathThatCannotBeFollowedSaysWhy) {
  std::filesystem::create_symlink("loop", folder_ + "/loop");
  spec_.dataset.train.images = "loop";
  EXPECT_THAT(Problems(),
              ElementsAre("spec.training.dataset.images: loop: Too many levels of symbolic links, "
                          "expected an IDX file"));
}

TEST_F(CheckDataFilesTest, OtherContentIsToldFromWhatIsRead) {
  Write("images", "<html>");
  Write("labels", Header({100}, 0x0d));
  EXPECT_THAT(
      Problems(),
      ElementsAre(
          "spec.training.dataset.images: images: no IDX header found, expected an IDX file, "
          "plain or gzip",
          "spec.training.dataset.labels: labels: an IDX file of 32-bit floats (type 0x0d) found, "
          "expected unsigned bytes (type 0x08), the only type that is read"));
}

TEST_F(CheckDataFilesTest, ShapeOfAnotherModelIsToldWithBoth) {
  Write("images", File({100, 32, 32, 3}));
  EXPECT_THAT(
      Problems(),
      ElementsAre("spec.training.dataset.images: images: samples of shape [32, 32, 3] found, "
                  "expected as many values per sample as spec.training.model.inputShape "
                  "[28, 28, 1] has"));
}

TEST_F(CheckDataFilesTest, CountsMustAgree) {
  Write("labels", File({90}));
  spec_.dataset.test_samples = 100;
  EXPECT_THAT(
      Problems(),
      ElementsAre("spec.training.dataset.labels: labels: 90 labels found, expected 100, "
                  "the number of inputs in images",
                  "spec.training.dataset.testSamples: images: 100 found, expected fewer than "
                  "the 100 samples of the file"));
}

TEST_F(CheckDataFilesTest, DataSetWithoutSamplesIsCalledThat) {
  Write("images", Header({0, 28, 28}));
  Write("labels", Header({0}));
  EXPECT_THAT(
      Problems(),
      ElementsAre("spec.training.dataset.images: images: 0 samples found, expected at least 1"));
}

TEST_F(CheckDataFilesTest, DroppingTheOnlyBatchLeavesNothing) {
  spec_.dataset.test_samples = 70;
  spec_.global_batch_size = 30;
  spec_.remainder = RemainderRule::kDrop;
  EXPECT_THAT(Problems(), IsEmpty());
  spec_.global_batch_size = 31;
  EXPECT_THAT(
      Problems(),
      ElementsAre("spec.training.remainder: images: Drop found, which drops all 30 samples, "
                  "because globalBatchSize is 31"));
  spec_.remainder = RemainderRule::kKeep;
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckDataFilesTest, EveryRankNeedsASampleForAModelOfItsOwn) {
  spec_.dataset.test_samples = 98;
  EXPECT_THAT(Problems(), IsEmpty());
  spec_.variables = VariablePlacement::kIndependent;
  EXPECT_THAT(Problems(),
              ElementsAre("spec.roles: images: 3 ranks found, but only 2 training samples; "
                          "expected at least one sample for each rank's model"));
  world_size_ = 2;
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckDataFilesTest, DroppingTheOnlyBatchOfARankLeavesNothing) {
  spec_.variables = VariablePlacement::kIndependent;
  spec_.remainder = RemainderRule::kDrop;
  spec_.global_batch_size = 33;
  EXPECT_THAT(Problems(), IsEmpty());
  spec_.global_batch_size = 34;
  EXPECT_THAT(Problems(),
              ElementsAre("spec.training.remainder: images: Drop found, which drops all 33 samples "
                          "of a rank, because globalBatchSize is 34"));
}

TEST_F(CheckDataFilesTest, FileThatIsCutShortOrTooLongIsTold) {
  const std::string whole = File({100, 28, 28});
  Write("images", whole.substr(0, 1000));
  Write("labels", File({100}) + "xy");
  EXPECT_THAT(Problems(),
              ElementsAre("spec.training.dataset.images: images: 984 bytes of values found, "
                          "expected 78400 for dimensions [100, 28, 28] (truncated)",
                          "spec.training.dataset.labels: labels: 102 bytes of values found, "
                          "expected 100 for dimensions [100] (trailing bytes)"));
}

TEST_F(CheckDataFilesTest, GzipThatIsCutShortOrHoldsAnotherSizeIsTold) {
  WriteGzip("images", File({100, 28, 28}).substr(0, 1000));
  std::string labels = File({100});
  for (std::size_t i = 8; i < labels.size(); ++i) {
    labels[i] = static_cast<char>(i * i % 251);  // not to be packed into one block
  }
  WriteGzip("labels", labels);
  const auto path = std::filesystem::path(folder_) / "labels";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 20);
  const std::vector<std::string> problems = Problems();
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0],
            "spec.training.dataset.images: images: 984 bytes of values found, expected 78400 for "
            "dimensions [100, 28, 28] (truncated)");
  EXPECT_THAT(problems[1],
              MatchesRegex("spec.training.dataset.labels: labels: [0-9]+ bytes of values found, "
                           "expected 100 for dimensions .100. .truncated."));
}

// All values are there, but not the end of the gzip's last member.
TEST_F(CheckDataFilesTest, GzipWithoutTheEndOfItsChecksumIsTold) {
  WriteGzip("labels", File({100}));
  const auto path = std::filesystem::path(folder_) / "labels";
  const auto size = std::filesystem::file_size(path);
  for (const std::uintmax_t cut : {1U, 3U, 8U}) {
    std::filesystem::resize_file(path, size - cut);
    EXPECT_THAT(Problems(),
                ElementsAre("spec.training.dataset.labels: labels: the gzip data ends before its "
                            "checksum (truncated)"))
        << cut;
    WriteGzip("labels", File({100}));
  }
}

TEST_F(CheckDataFilesTest, GzipOfSeveralMembersIsFine) {
  const std::string whole = File({100});
  WriteGzip("labels", whole.substr(0, 40));
  const gzFile file = ::gzopen((folder_ + "/labels").c_str(), "ab");
  LOCKSTEP_CHECK(::gzwrite(file, whole.data() + 40, static_cast<unsigned>(whole.size() - 40)) > 0,
                 "gzwrite");
  ::gzclose(file);
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(CheckDataFilesTest, LossThatCannotReadTheLabelsIsToldWithBothNumbers) {
  spec_.model.layers = {FlattenLayer{}, DenseLayer{10}};
  for (const LossType loss :
       {LossType::kSparseCategoricalCrossentropy, LossType::kCategoricalCrossentropy}) {
    spec_.loss.type = loss;
    EXPECT_THAT(Problems(), IsEmpty()) << "numbers of classes";
  }
  spec_.loss.type = LossType::kMeanSquaredError;
  const std::string expected =
      "spec.training.loss.type: labels: 1 label value per sample found, expected 10: "
      "MeanSquaredError needs a label value for each of the model's 10 outputs";
  EXPECT_THAT(Problems(), ElementsAre(expected));
  Write("labels", File({100, 10}));
  EXPECT_THAT(Problems(), IsEmpty());
  spec_.loss.type = LossType::kSparseCategoricalCrossentropy;
  EXPECT_THAT(Problems(),
              ElementsAre("spec.training.loss.type: labels: 10 label values per sample found, "
                          "expected 1: SparseCategoricalCrossentropy reads one class number per "
                          "sample"));
}

TEST_F(CheckDataFilesTest, HeaderThatEndsEarlyIsTold) {
  Write("labels", Header({100}).substr(0, 6));
  EXPECT_THAT(Problems(),
              ElementsAre("spec.training.dataset.labels: labels: the IDX header is truncated"));
}

}  // namespace
}  // namespace lockstep::control
