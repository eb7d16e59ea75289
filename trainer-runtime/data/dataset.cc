#include "trainer-runtime/data/dataset.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <numeric>
#include <utility>
#include <zlib.h>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

int64_t Product(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string ResolvePath(const std::string& path, const std::string& data_directory) {
  // An absolute right-hand side replaces the left one.
  return (std::filesystem::path(data_directory) / path).string();
}

Result<Dataset> LoadFiles(const IdxFiles& files, double scale, const std::string& data_directory) {
  const std::string images_path = ResolvePath(files.images, data_directory);
  const std::string labels_path = ResolvePath(files.labels, data_directory);
  LOCKSTEP_ASSIGN_OR_RETURN(IdxTensor images, ReadIdxFile(images_path));
  LOCKSTEP_ASSIGN_OR_RETURN(IdxTensor labels, ReadIdxFile(labels_path));
  return Dataset::Make(std::move(images), std::move(labels), scale, images_path);
}

// Copies row `id` of a table of bytes, each value times `scale`.
void CopyRow(const std::vector<uint8_t>& table, int64_t id, double scale, std::span<float> row) {
  const uint8_t* from = table.data() + static_cast<std::size_t>(id) * row.size();
  // In float, one rounding a value: what NumPy and Keras do with float32 arrays.
  const auto factor = static_cast<float>(scale);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(from[i]) * factor;
  }
}

struct PartOfRows {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t count = 0;
};

// Moves the rows from `row_count` - `tail` on into a table of their own.
std::vector<uint8_t> SplitRows(std::vector<uint8_t>* table, int64_t tail, int64_t row_width) {
  const auto cut = table->end() - tail * row_width;
  std::vector<uint8_t> rows(cut, table->end());
  table->erase(cut, table->end());
  table->shrink_to_fit();
  return rows;
}

std::vector<uint8_t> TakeRows(const std::vector<uint8_t>& table,
                              const PartOfRows& part,
                              int64_t row_width) {
  std::vector<uint8_t> rows;
  rows.reserve(static_cast<std::size_t>(part.count * row_width));
  for (int64_t i = 0; i < part.count; ++i) {
    const auto row = table.begin() + (part.first + i * part.stride) * row_width;
    rows.insert(rows.end(), row, row + row_width);
  }
  return rows;
}

}  // namespace

Result<Dataset> Dataset::Make(IdxTensor images,
                              IdxTensor labels,
                              double scale,
                              const std::string& name) {
  constexpr std::size_t kLabelDimensionsMax = 2;
  if (labels.shape.size() > kLabelDimensionsMax) {
    return Error(ErrorCode::kInvalidArgument,
                 name + ": its labels have shape " + FormatShape(labels.shape) +
                     ", expected [samples] or [samples, width]");
  }
  if (images.shape.front() != labels.shape.front()) {
    return Error(ErrorCode::kInvalidArgument,
                 name + ": " + std::to_string(images.shape.front()) + " images with " +
                     std::to_string(labels.shape.front()) +
                     " labels found, expected as many labels as images");
  }
  Dataset dataset;
  dataset.sample_count_ = images.shape.front();
  dataset.input_shape_.assign(images.shape.begin() + 1, images.shape.end());
  dataset.input_width_ = Product(dataset.input_shape_);
  dataset.label_width_ = labels.shape.size() == kLabelDimensionsMax ? labels.shape.back() : 1;
  dataset.scale_ = scale;
  dataset.inputs_ = std::move(images.values);
  dataset.labels_ = std::move(labels.values);
  dataset.TakeChecksum();
  return dataset;
}

std::optional<SampleLabel> Dataset::FirstLabelAbove(int64_t max) const {
  const auto found = std::ranges::find_if(labels_, [max](uint8_t label) { return label > max; });
  if (found == labels_.end()) {
    return std::nullopt;
  }
  return SampleLabel{(found - labels_.begin()) / label_width_, *found};
}

void Dataset::TakeChecksum() {
  uLong sum = crc32_z(0, nullptr, 0);
  sum = crc32_z(sum, inputs_.data(), inputs_.size());
  checksum_ = static_cast<uint32_t>(crc32_z(sum, labels_.data(), labels_.size()));
}

void Dataset::Gather(std::span<const int64_t> ids,
                     std::span<float> inputs,
                     std::span<float> labels) const {
  const auto input_width = static_cast<std::size_t>(input_width_);
  const auto label_width = static_cast<std::size_t>(label_width_);
  LOCKSTEP_CHECK(inputs.size() == ids.size() * input_width, std::to_string(inputs.size()));
  LOCKSTEP_CHECK(labels.size() == ids.size() * label_width, std::to_string(labels.size()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    LOCKSTEP_CHECK(ids[i] >= 0 && ids[i] < sample_count_,
                   "sample " + std::to_string(ids[i]) + " of " + std::to_string(sample_count_));
    CopyRow(inputs_, ids[i], scale_, inputs.subspan(i * input_width, input_width));
    CopyRow(labels_, ids[i], 1, labels.subspan(i * label_width, label_width));
  }
}

Dataset Dataset::Part(int index, int count) const {
  LOCKSTEP_CHECK(index >= 0 && index < count,
                 std::to_string(index) + " of " + std::to_string(count));
  const int64_t others = count - 1 - index;  // parts behind this one
  const PartOfRows rows{index, count, (sample_count_ + others) / count};
  Dataset part;
  part.sample_count_ = rows.count;
  part.input_shape_ = input_shape_;
  part.input_width_ = input_width_;
  part.label_width_ = label_width_;
  part.scale_ = scale_;
  part.inputs_ = TakeRows(inputs_, rows, input_width_);
  part.labels_ = TakeRows(labels_, rows, label_width_);
  part.part_ = count > 1 ? std::to_string(index) + " of " + std::to_string(count) : part_;
  part.TakeChecksum();
  return part;
}

Dataset Dataset::SplitOffTail(int64_t count) {
  LOCKSTEP_CHECK(count >= 0 && count <= sample_count_,
                 std::to_string(count) + " of " + std::to_string(sample_count_));
  Dataset tail;
  tail.sample_count_ = count;
  tail.input_shape_ = input_shape_;
  tail.input_width_ = input_width_;
  tail.label_width_ = label_width_;
  tail.scale_ = scale_;
  tail.inputs_ = SplitRows(&inputs_, count, input_width_);
  tail.labels_ = SplitRows(&labels_, count, label_width_);
  sample_count_ -= count;
  tail.TakeChecksum();
  TakeChecksum();
  return tail;
}

Result<DatasetSplits> LoadDataset(const DatasetSpec& spec, const std::string& data_directory) {
  DatasetSplits splits;
  LOCKSTEP_ASSIGN_OR_RETURN(splits.train, LoadFiles(spec.train, spec.scale, data_directory));
  if (splits.train.sample_count() == 0) {
    return Error(ErrorCode::kInvalidArgument, spec.train.images + ": the data set has no samples");
  }
  if (spec.test_samples >= splits.train.sample_count()) {
    return Error(ErrorCode::kInvalidArgument,
                 spec.train.images + ": " + std::to_string(splits.train.sample_count()) +
                     " samples found, expected more than the " + std::to_string(spec.test_samples) +
                     " samples that testSamples keeps for the test");
  }
  if (!spec.test.has_value()) {
    splits.test = splits.train.SplitOffTail(spec.test_samples);
    return splits;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(splits.test, LoadFiles(*spec.test, spec.scale, data_directory));
  if (splits.test.input_shape() != splits.train.input_shape() ||
      splits.test.label_width() != splits.train.label_width()) {
    return Error(
        ErrorCode::kInvalidArgument,
        spec.test->images + ": samples of shape " + FormatShape(splits.test.input_shape()) +
            " with " + std::to_string(splits.test.label_width()) +
            " labels found, expected shape " + FormatShape(splits.train.input_shape()) + " with " +
            std::to_string(splits.train.label_width()) + " labels, as in " + spec.train.images);
  }
  return splits;
}

Status CheckInputShape(const Dataset& dataset, std::span<const int64_t> model_input_shape) {
  if (dataset.input_width() == Product(model_input_shape)) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               "samples have shape " + FormatShape(dataset.input_shape()) + " with " +
                   std::to_string(dataset.input_width()) + " values each, expected " +
                   std::to_string(Product(model_input_shape)) + " values for the model's input " +
                   FormatShape({model_input_shape.begin(), model_input_shape.end()}));
}

}  // namespace lockstep::runtime
