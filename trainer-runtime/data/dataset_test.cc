#include "trainer-runtime/data/dataset.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/io/file.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

IdxTensor Images(int64_t count) {
  IdxTensor tensor{{count, 1, 2}, {}};
  for (int64_t i = 0; i < 2 * count; ++i) {
    tensor.values.push_back(static_cast<uint8_t>(10 * i));
  }
  return tensor;
}

IdxTensor Labels(int64_t count) {
  IdxTensor tensor{{count}, {}};
  for (int64_t i = 0; i < count; ++i) {
    tensor.values.push_back(static_cast<uint8_t>(i));
  }
  return tensor;
}

std::string EncodeIdx(const IdxTensor& tensor) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(tensor.shape.size())};
  for (const int64_t length : tensor.shape) {
    bytes += std::string{'\0', '\0', '\0', static_cast<char>(length)};
  }
  return bytes + std::string(tensor.values.begin(), tensor.values.end());
}

TEST(Dataset, GathersRowsInTheOrderAsked) {
  const Result<Dataset> dataset = Dataset::Make(Images(4), Labels(4), 0.5, "x");
  ASSERT_TRUE(dataset.ok());
  std::vector<float> inputs(4);
  std::vector<float> labels(2);
  dataset->Gather(std::vector<int64_t>{3, 1}, inputs, labels);
  EXPECT_THAT(inputs, ElementsAre(30, 35, 10, 15));
  EXPECT_THAT(labels, ElementsAre(3, 1));
  EXPECT_THAT(dataset->input_shape(), ElementsAre(1, 2));
  EXPECT_EQ(dataset->FirstLabelAbove(1), (SampleLabel{2, 2}));
  EXPECT_EQ(dataset->FirstLabelAbove(3), std::nullopt);
}

TEST(Dataset, LabelsMayBeVectors) {
  const Result<Dataset> dataset =
      Dataset::Make(Images(2), IdxTensor{{2, 3}, {1, 0, 0, 0, 0, 1}}, 1, "x");
  ASSERT_TRUE(dataset.ok());
  std::vector<float> inputs(2);
  std::vector<float> labels(3);
  dataset->Gather(std::vector<int64_t>{1}, inputs, labels);
  EXPECT_THAT(labels, ElementsAre(0, 0, 1));
}

TEST(Dataset, CountsMustAgree) {
  const Result<Dataset> dataset = Dataset::Make(Images(4), Labels(3), 1, "images.gz");
  ASSERT_FALSE(dataset.ok());
  EXPECT_THAT(dataset.error().message(), HasSubstr("images.gz: 4 images with 3 labels"));
}

TEST(Dataset, TailIsCutOffWhole) {
  Dataset train = Dataset::Make(Images(5), Labels(5), 1, "x").value();
  const Dataset test = train.SplitOffTail(2);
  EXPECT_EQ(train.sample_count(), 3);
  ASSERT_EQ(test.sample_count(), 2);
  std::vector<float> inputs(4);
  std::vector<float> labels(2);
  test.Gather(std::vector<int64_t>{0, 1}, inputs, labels);
  EXPECT_THAT(inputs, ElementsAre(60, 70, 80, 90));
  EXPECT_THAT(labels, ElementsAre(3, 4));
}

// What a checkpoint remembers of the data it was made with.
TEST(Dataset, ChecksumFollowsInputsAndLabelsOfTheSplit) {
  Dataset train = Dataset::Make(Images(5), Labels(5), 1, "x").value();
  IdxTensor other_labels = Labels(5);
  std::swap(other_labels.values[0], other_labels.values[1]);
  const Dataset relabelled = Dataset::Make(Images(5), std::move(other_labels), 1, "x").value();
  EXPECT_NE(train.checksum(), relabelled.checksum());
  const Dataset same_as_head = Dataset::Make(Images(3), Labels(3), 1, "y").value();
  const Dataset tail = train.SplitOffTail(2);
  EXPECT_EQ(train.checksum(), same_as_head.checksum());
  EXPECT_NE(tail.checksum(), train.checksum());
}

TEST(Dataset, InputShapeIsComparedByNumberOfValues) {
  const Dataset dataset = Dataset::Make(Images(1), Labels(1), 1, "x").value();
  EXPECT_TRUE(CheckInputShape(dataset, std::vector<int64_t>{1, 2, 1}).ok());
  const Status status = CheckInputShape(dataset, std::vector<int64_t>{1, 2, 3});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("[1, 2] with 2 values each, expected 6"));
}

class LoadDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "lockstep-dataset-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    Write("images", EncodeIdx(Images(5)));
    Write("labels", EncodeIdx(Labels(5)));
    spec_.train = {"images", "labels"};
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(directory_ + "/" + name, bytes).ok());
  }

  void ExpectRefused(const std::string& part) {
    const Result<DatasetSplits> splits = LoadDataset(spec_, directory_);
    ASSERT_FALSE(splits.ok());
    EXPECT_THAT(splits.error().ToString(), HasSubstr(part));
  }

  std::string directory_;
  DatasetSpec spec_;
};

TEST_F(LoadDatasetTest, TestSamplesComeOffTheEnd) {
  spec_.test_samples = 2;
  const Result<DatasetSplits> splits = LoadDataset(spec_, directory_);
  ASSERT_TRUE(splits.ok()) << splits.error().ToString();
  EXPECT_EQ(splits->train.sample_count(), 3);
  EXPECT_EQ(splits->test.sample_count(), 2);
}

TEST_F(LoadDatasetTest, AbsolutePathsIgnoreTheDataDirectory) {
  spec_.train = {directory_ + "/images", directory_ + "/labels"};
  const Result<DatasetSplits> splits = LoadDataset(spec_, "elsewhere");
  ASSERT_TRUE(splits.ok()) << splits.error().ToString();
  EXPECT_EQ(splits->train.sample_count(), 5);
  EXPECT_EQ(splits->test.sample_count(), 0);
}

TEST_F(LoadDatasetTest, TestFilesAreReadAndCompared) {
  Write("test-images", EncodeIdx(Images(1)));
  Write("test-labels", EncodeIdx(Labels(1)));
  spec_.test = IdxFiles{"test-images", "test-labels"};
  const Result<DatasetSplits> splits = LoadDataset(spec_, directory_);
  ASSERT_TRUE(splits.ok()) << splits.error().ToString();
  EXPECT_EQ(splits->train.sample_count(), 5);
  EXPECT_EQ(splits->test.sample_count(), 1);
  Write("test-images", EncodeIdx(IdxTensor{{1, 3}, {1, 2, 3}}));
  ExpectRefused("samples of shape [3]");
}

TEST_F(LoadDatasetTest, DataSetWithoutSamplesIsCalledThat) {
  Write("images", EncodeIdx(IdxTensor{{0, 2}, {}}));
  Write("labels", EncodeIdx(Labels(0)));
  ExpectRefused("images: the data set has no samples");
}

TEST_F(LoadDatasetTest, EachFaultNamesItsFile) {
  spec_.test_samples = 5;
  ExpectRefused(
      "images: 5 samples found, expected more than the 5 samples that testSamples keeps for the "
      "test");
  spec_.test_samples = 0;
  spec_.train.labels = "images";
  ExpectRefused("its labels have shape [5, 1, 2]");
  spec_.train.labels = "none";
  ExpectRefused(directory_ + "/none");
}

// Whoever waits for this rank is told at once: the file stays as it is, however often it is read.
TEST_F(LoadDatasetTest, FilesThatCannotBeReadAreErrorsOfTheInput) {
  std::filesystem::create_directory(directory_ + "/folder");
  const std::string huge{"\0\0\x08\x02\x7f\xff\xff\xff\x7f\xff\xff\xff", 12};
  Write("huge", huge);
  for (const char* images : {"folder", "images/below-a-file", "huge"}) {
    spec_.train.images = images;
    const Result<DatasetSplits> splits = LoadDataset(spec_, directory_);
    ASSERT_FALSE(splits.ok()) << images;
    EXPECT_EQ(splits.error().code(), ErrorCode::kInvalidArgument) << splits.error().ToString();
    EXPECT_THAT(splits.error().ToString(), HasSubstr(images));
  }
}

// Every number of samples, also fewer than there are parts.
TEST(Dataset, PartsHoldEachSampleOnceAndDifferByOneAtMost) {
  for (int64_t samples = 0; samples <= 12; ++samples) {
    const Dataset whole = Dataset::Make(Images(samples), Labels(samples), 1, "x").value();
    for (int count = 1; count <= 5; ++count) {
      std::vector<int> uses(static_cast<std::size_t>(samples));
      for (int index = 0; index < count; ++index) {
        const Dataset part = whole.Part(index, count);
        const int64_t expected = samples / count + (index < samples % count ? 1 : 0);
        ASSERT_EQ(part.sample_count(), expected) << samples << ": " << index << " of " << count;
        for (int64_t i = 0; i < part.sample_count(); ++i) {
          std::vector<float> input(2);
          std::vector<float> label(1);
          part.Gather(std::vector<int64_t>{i}, input, label);
          EXPECT_EQ(label[0], static_cast<float>(index + i * count));
          EXPECT_THAT(input, ElementsAre(20 * label[0], 20 * label[0] + 10));
          ++uses[static_cast<std::size_t>(label[0])];
        }
      }
      EXPECT_THAT(uses, testing::Each(1));
    }
  }
}

TEST(Dataset, PartKnowsWhichItIsAndHasAChecksumOfItsOwn) {
  const Dataset whole = Dataset::Make(Images(6), Labels(6), 1, "x").value();
  const Dataset part = whole.Part(0, 3);
  EXPECT_EQ(part.part(), "0 of 3");
  EXPECT_NE(part.checksum(), whole.checksum());
  EXPECT_EQ(whole.part(), "");
  EXPECT_EQ(whole.Part(0, 1).part(), "");
  EXPECT_EQ(whole.Part(0, 1).checksum(), whole.checksum());
}

}  // namespace
}  // namespace lockstep::runtime
