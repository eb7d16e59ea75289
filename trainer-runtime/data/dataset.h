#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/data/idx_reader.h"

namespace lockstep::runtime {

struct SampleLabel {
  int64_t sample = 0;
  int value = 0;

  friend bool operator==(const SampleLabel&, const SampleLabel&) = default;
};

// Samples in memory, addressed by id 0, 1, ..., sample_count - 1 in the order of the file. Inputs
// stay bytes until they are gathered: a quarter of the memory of floats.
class Dataset {
 public:
  // Empty: a split that the job does not have.
  Dataset() = default;

  // Joins images and labels. Shapes: images [n, ...], labels [n] or [n, width].
  // Errors: kInvalidArgument (counts differ, labels of more than two dimensions); `name` is the
  // images' file.
  static Result<Dataset> Make(IdxTensor images,
                              IdxTensor labels,
                              double scale,
                              const std::string& name);

  int64_t sample_count() const { return sample_count_; }

  // Shape of one sample's input as in the file, [28, 28] for digits, and its number of values.
  const std::vector<int64_t>& input_shape() const { return input_shape_; }

  int64_t input_width() const { return input_width_; }

  int64_t label_width() const { return label_width_; }

  // The first label value above `max`, and the sample it is of.
  std::optional<SampleLabel> FirstLabelAbove(int64_t max) const;

  // CRC-32 of all inputs, then all labels: tells two sets of equal size apart. 0 when empty.
  uint32_t checksum() const { return checksum_; }

  // Copies the rows of `ids`, one after the other: inputs times `scale` as float32, labels as
  // float32 unscaled. Shapes: inputs [ids.size() * input_width], labels [ids.size() * label_width].
  // Preconditions (checked): those sizes, ids in range. Thread: any.
  void Gather(std::span<const int64_t> ids, std::span<float> inputs, std::span<float> labels) const;

  // The samples index, index + count, index + 2 * count, ... as a set of their own, numbered anew.
  // All `count` parts together hold each sample once; the first ones have one more than the others
  // where they cannot be equal. Precondition (checked): 0 <= index < count.
  Dataset Part(int index, int count) const;

  // "1 of 3": which part of a whole set this is; empty for a whole one.
  const std::string& part() const { return part_; }

  // Cuts the last `count` samples off into a set of their own.
  // Precondition (checked): 0 <= count <= sample_count.
  Dataset SplitOffTail(int64_t count);

 private:
  // Once the rows are in place.
  void TakeChecksum();

  int64_t sample_count_ = 0;
  std::vector<int64_t> input_shape_;
  int64_t input_width_ = 0;
  int64_t label_width_ = 0;
  uint32_t checksum_ = 0;
  double scale_ = 1;
  std::string part_;
  std::vector<uint8_t> inputs_;
  std::vector<uint8_t> labels_;
};

struct DatasetSplits {
  Dataset train;
  Dataset test;  // empty when the job names no test samples
};

// Reads the files of `spec`; relative paths start at `data_directory` (empty: the working folder).
// The test split is the last `testSamples` of the file, or the files under `test`.
// Errors: those of ReadIdxFile and Dataset::Make; kInvalidArgument when no training sample is left
// or the test files' samples have another shape.
Result<DatasetSplits> LoadDataset(const DatasetSpec& spec, const std::string& data_directory);

// Whether samples fit the model's input: equal numbers of values, so [28, 28] fits [28, 28, 1].
// Errors: kInvalidArgument with both shapes.
Status CheckInputShape(const Dataset& dataset, std::span<const int64_t> model_input_shape);

}  // namespace lockstep::runtime
