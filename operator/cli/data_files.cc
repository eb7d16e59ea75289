#include "operator/cli/data_files.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>
#include <zlib.h>

#include "common/base/result.h"

namespace lockstep::control {
namespace {

using Shape = std::vector<int64_t>;

// The header of an IDX file: two zero bytes, the element type, the number of dimensions, and one
// big-endian 32-bit length for each. Source: yann.lecun.com/exdb/mnist.
constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kDimensionsMax = 8;  // as the trainer has it
constexpr unsigned kUnsignedByteType = 0x08;

struct CloseGzip {
  void operator()(gzFile_s* file) const { ::gzclose(file); }
};

// Of the types that the format knows.
std::string TypeName(unsigned type) {
  constexpr std::pair<unsigned, const char*> kNames[] = {{0x09, "signed bytes"},
                                                         {0x0b, "16-bit integers"},
                                                         {0x0c, "32-bit integers"},
                                                         {0x0d, "32-bit floats"},
                                                         {0x0e, "64-bit floats"}};
  char text[16];
  std::snprintf(text, sizeof text, "type 0x%02x", type);
  for (const auto& [known, name] : kNames) {
    if (known == type) {
      return std::string(name) + " (" + text + ")";
    }
  }
  return text;
}

Error Wrong(const std::string& path, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, path + ": " + what);
}

// The first bytes, inflated where the file is a gzip's.
Result<std::string> ReadBeginning(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error && error.value() != ENOENT) {
    return Wrong(path, error.message() + ", expected an IDX file");
  }
  if (!std::filesystem::exists(status)) {
    return Wrong(path, "no such file, expected an IDX file");
  }
  if (!std::filesystem::is_regular_file(status)) {
    const bool is_folder = std::filesystem::is_directory(status);
    return Wrong(
        path,
        std::string(is_folder ? "a folder" : "a pipe or device") + " found, expected an IDX file");
  }
  const std::unique_ptr<gzFile_s, CloseGzip> file(::gzopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    return Wrong(path, std::generic_category().message(errno) + ", expected an IDX file");
  }
  std::array<char, kMagicBytes + kDimensionsMax * kLengthBytes> bytes{};
  const int got = ::gzread(file.get(), bytes.data(), bytes.size());
  if (got < 0) {
    int code = 0;
    return Wrong(path, std::string("cannot be inflated: ") + ::gzerror(file.get(), &code));
  }
  return std::string(bytes.data(), static_cast<std::size_t>(got));
}

Result<Shape> ReadShape(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string bytes, ReadBeginning(path));
  const auto byte_at = [&bytes](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const std::size_t dimensions = bytes.size() < kMagicBytes ? 0 : byte_at(3);
  if (dimensions == 0 || dimensions > kDimensionsMax || byte_at(0) != 0 || byte_at(1) != 0) {
    return Wrong(path, "no IDX header found, expected an IDX file, plain or gzip");
  }
  if (byte_at(2) != kUnsignedByteType) {
    return Wrong(path,
                 "IDX of " + TypeName(byte_at(2)) +
                     " found, expected type 0x08: unsigned bytes are all that is read");
  }
  if (bytes.size() < kMagicBytes + dimensions * kLengthBytes) {
    return Wrong(path, "its IDX header ends early");
  }
  Shape shape;
  for (std::size_t i = 0; i < dimensions; ++i) {
    int64_t length = 0;
    for (std::size_t k = 0; k < kLengthBytes; ++k) {
      length = length << 8 | byte_at(kMagicBytes + i * kLengthBytes + k);
    }
    shape.push_back(length);
  }
  return shape;
}

// Of one sample. Lengths of up to 2^32 each could pass 2^63: in double, which only loses digits.
double ValueCount(const Shape& shape, std::size_t from) {
  return std::accumulate(
      shape.begin() + static_cast<std::ptrdiff_t>(from),
      shape.end(),
      1.0,
      [](double product, int64_t length) { return product * static_cast<double>(length); });
}

class DataCheck {
 public:
  DataCheck(const TrainingSpec& spec, std::string folder)
      : spec_(spec), folder_(std::move(folder)) {}

  // One pair of files; returns how many samples it has, where that is known.
  std::optional<int64_t> CheckPair(const std::string& field, const IdxFiles& files) {
    const std::string images_path = PathOf(files.images);
    const std::string labels_path = PathOf(files.labels);
    const auto images = ReadShape(images_path);
    const auto labels = ReadShape(labels_path);
    if (!images.ok()) {
      Add(field + "images", images.error());
    } else if (images->front() == 0) {
      Add(field + "images", Wrong(images_path, "a data set without samples found"));
    } else {
      CheckFit(field + "images", images_path, *images);
    }
    if (!labels.ok()) {
      Add(field + "labels", labels.error());
    } else if (images.ok() && labels->front() != images->front()) {
      Add(field + "labels",
          Wrong(labels_path,
                std::to_string(labels->front()) + " labels found, expected " +
                    std::to_string(images->front()) + " as there are inputs in " + images_path));
    }
    return images.ok() ? std::optional(images->front()) : std::nullopt;
  }

  // Of the training data, which has samples.
  void CheckCounts(int64_t sample_count) {
    const int64_t batch_size = spec_.global_batch_size;
    const int64_t left = sample_count - spec_.dataset.test_samples;
    if (left > 0 && left < batch_size && spec_.remainder == RemainderRule::kDrop) {
      Add("spec.training.remainder",
          Wrong(PathOf(spec_.dataset.train.images),
                "Drop found, which leaves nothing of " + std::to_string(left) +
                    " samples with a globalBatchSize of " + std::to_string(batch_size)));
    }
    if (left <= 0) {
      Add("spec.training.dataset.testSamples",
          Wrong(PathOf(spec_.dataset.train.images),
                std::to_string(spec_.dataset.test_samples) + " found, expected fewer than the " +
                    std::to_string(sample_count) + " samples of the file"));
    }
  }

  std::vector<Error> Take() { return std::move(errors_); }

 private:
  void CheckFit(const std::string& field, const std::string& path, const Shape& shape) {
    const Shape& wanted = spec_.model.input_shape;
    if (ValueCount(shape, 1) != ValueCount(wanted, 0)) {
      Add(field,
          Wrong(path,
                "samples of shape " + FormatShape(Shape(shape.begin() + 1, shape.end())) +
                    " found, expected as many values as spec.training.model.inputShape " +
                    FormatShape(wanted) + " has"));
    }
  }

  // An absolute right-hand side replaces the left one.
  std::string PathOf(const std::string& given) const {
    return (std::filesystem::path(folder_) / given).string();
  }

  void Add(const std::string& field, const Error& error) {
    errors_.push_back(Error(error.code(), error.message()).WithField(field));
  }

  const TrainingSpec& spec_;
  std::string folder_;
  std::vector<Error> errors_;
};

}  // namespace

std::vector<Error> CheckDataFiles(const TrainingSpec& spec, const std::string& folder) {
  DataCheck check(spec, folder);
  const auto count = check.CheckPair("spec.training.dataset.", spec.dataset.train);
  if (count.value_or(0) > 0) {
    check.CheckCounts(*count);
  }
  if (spec.dataset.test) {
    check.CheckPair("spec.training.dataset.test.", *spec.dataset.test);
  }
  return check.Take();
}

}  // namespace lockstep::control
