#include "operator/cli/run/data_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>
#include <zlib.h>

#include "common/base/plural.h"
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

Error WrongFile(const std::string& path, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, path + ": " + what);
}

using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

// What a file begins with, inflated where it is a gzip's.
struct Beginning {
  std::string bytes;
  bool is_gzip = false;
};

Error CannotInflate(const std::string& path, const GzipFile& file) {
  int code = 0;
  return WrongFile(path, std::string("cannot be decompressed: ") + ::gzerror(file.get(), &code));
}

Result<Beginning> ReadBeginning(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error && error.value() != ENOENT) {
    return WrongFile(path, error.message() + ", expected an IDX file");
  }
  if (!std::filesystem::exists(status)) {
    return WrongFile(path, "no such file, expected an IDX file");
  }
  if (!std::filesystem::is_regular_file(status)) {
    const bool is_folder = std::filesystem::is_directory(status);
    return WrongFile(
        path,
        std::string(is_folder ? "a folder" : "a pipe or device") + " found, expected an IDX file");
  }
  const GzipFile file(::gzopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    return WrongFile(path, std::generic_category().message(errno) + ", expected an IDX file");
  }
  std::array<char, kMagicBytes + kDimensionsMax * kLengthBytes> bytes{};
  const int got = ::gzread(file.get(), bytes.data(), bytes.size());
  if (got < 0) {
    return CannotInflate(path, file);
  }
  return Beginning{std::string(bytes.data(), static_cast<std::size_t>(got)),
                   ::gzdirect(file.get()) == 0};
}

struct Header {
  Shape shape;
  bool is_gzip = false;

  std::size_t size_bytes() const { return kMagicBytes + shape.size() * kLengthBytes; }
};

Result<Header> ReadHeader(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Beginning beginning, ReadBeginning(path));
  const std::string& bytes = beginning.bytes;
  const auto byte_at = [&bytes](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const std::size_t dimensions = bytes.size() < kMagicBytes ? 0 : byte_at(3);
  if (dimensions == 0 || dimensions > kDimensionsMax || byte_at(0) != 0 || byte_at(1) != 0) {
    return WrongFile(path, "no IDX header found, expected an IDX file, plain or gzip");
  }
  if (byte_at(2) != kUnsignedByteType) {
    return WrongFile(path,
                     "an IDX file of " + TypeName(byte_at(2)) +
                         " found, expected unsigned bytes (type 0x08), the only type that is read");
  }
  if (bytes.size() < kMagicBytes + dimensions * kLengthBytes) {
    return WrongFile(path, "the IDX header is truncated");
  }
  Header header;
  header.is_gzip = beginning.is_gzip;
  for (std::size_t i = 0; i < dimensions; ++i) {
    int64_t length = 0;
    for (std::size_t k = 0; k < kLengthBytes; ++k) {
      length = length << 8 | byte_at(kMagicBytes + i * kLengthBytes + k);
    }
    header.shape.push_back(length);
  }
  return header;
}

// Of one sample. Lengths of up to 2^32 each could pass 2^63: in double, which only loses digits.
double ValueCount(const Shape& shape, std::size_t from) {
  return std::accumulate(
      shape.begin() + static_cast<std::ptrdiff_t>(from),
      shape.end(),
      1.0,
      [](double product, int64_t length) { return product * static_cast<double>(length); });
}

// How many bytes a gzip says at its end that it holds, modulo 2^32. Source: RFC 1952, ISIZE.
std::optional<uint32_t> SizeInGzip(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<unsigned char, sizeof(uint32_t)> bytes{};
  file.seekg(-static_cast<std::streamoff>(bytes.size()), std::ios::end);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), bytes.size())) {
    return std::nullopt;
  }
  uint32_t size = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    size = size << 8U | bytes[i - 1];
  }
  return size;
}

// Inflates until the end, or until there are more than `most`. Errors: it is damaged, or ends
// between the last of so many bytes and its own end.
Result<double> CountInGzip(const std::string& path, double most) {
  const GzipFile file(::gzopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    return WrongFile(path, std::generic_category().message(errno) + ", expected an IDX file");
  }
  std::array<char, 65536> block{};
  double count = 0;
  int got = 1;
  while (got > 0 && count <= most) {
    got = ::gzread(file.get(), block.data(), block.size());
    count += std::max(0, got);
  }
  int code = Z_OK;
  ::gzerror(file.get(), &code);
  if (code == Z_BUF_ERROR && count == most) {
    return WrongFile(path, "the gzip data ends before its checksum (truncated)");
  }
  return code == Z_OK || code == Z_BUF_ERROR ? Result<double>(count) : CannotInflate(path, file);
}

// Whether the file holds as many values as its header says; in words as the trainer's. Of a gzip
// its end tells, and it is inflated only where that says another size.
Status CheckLength(const std::string& path, const Header& header) {
  const double expected = ValueCount(header.shape, 0);
  const double whole = static_cast<double>(header.size_bytes()) + expected;
  double found = 0;
  if (header.is_gzip) {
    constexpr double kModulus = 4294967296;  // 2^32
    const std::optional<uint32_t> size = SizeInGzip(path);
    if (size.has_value() && *size == std::fmod(whole, kModulus)) {
      return OkStatus();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(found, CountInGzip(path, whole));
  } else {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    found = error ? whole : static_cast<double>(size);
  }
  if (found == whole) {
    return OkStatus();
  }
  char counts[128];
  std::snprintf(counts,
                sizeof counts,
                "%.0f bytes of values found, expected %.0f",
                found - static_cast<double>(header.size_bytes()),
                expected);
  const bool is_more = found > whole;
  return WrongFile(path,
                   (is_more && header.is_gzip ? "at least " : "") + std::string(counts) +
                       " for dimensions " + FormatShape(header.shape) +
                       (is_more ? " (trailing bytes)" : " (truncated)"));
}

class DataCheck {
 public:
  DataCheck(const TrainingSpec& spec, std::string folder, int64_t world_size)
      : spec_(spec), folder_(std::move(folder)), world_size_(world_size) {}

  // One pair of files; returns how many samples it has, where that is known.
  std::optional<int64_t> CheckPair(const std::string& field, const IdxFiles& files) {
    const std::string images_path = PathOf(files.images);
    const std::string labels_path = PathOf(files.labels);
    const auto images = ReadHeader(images_path);
    const auto labels = ReadHeader(labels_path);
    if (!images.ok()) {
      Add(field + "images", images.error());
    } else if (images->shape.front() == 0) {
      Add(field + "images", WrongFile(images_path, "0 samples found, expected at least 1"));
    } else {
      CheckFit(field + "images", images_path, images->shape);
      CheckWhole(field + "images", images_path, *images);
    }
    if (!labels.ok()) {
      Add(field + "labels", labels.error());
      return images.ok() ? std::optional(images->shape.front()) : std::nullopt;
    }
    if (images.ok() && labels->shape.front() != images->shape.front()) {
      Add(field + "labels",
          WrongFile(labels_path,
                    std::to_string(labels->shape.front()) + " labels found, expected " +
                        std::to_string(images->shape.front()) + ", the number of inputs in " +
                        images_path));
    }
    CheckWhole(field + "labels", labels_path, *labels);
    CheckLabelWidth(labels_path, static_cast<int64_t>(ValueCount(labels->shape, 1)));
    return images.ok() ? std::optional(images->shape.front()) : std::nullopt;
  }

  // Of the training data, which has samples.
  void CheckCounts(int64_t sample_count) {
    const int64_t batch_size = spec_.global_batch_size;
    const int64_t left = sample_count - spec_.dataset.test_samples;
    const std::string path = PathOf(spec_.dataset.train.images);
    if (left <= 0) {
      Add("spec.training.dataset.testSamples",
          WrongFile(path,
                    std::to_string(spec_.dataset.test_samples) +
                        " found, expected fewer than the " + std::to_string(sample_count) +
                        " samples of the file"));
      return;
    }
    const bool has_own_models = spec_.variables == VariablePlacement::kIndependent;
    if (has_own_models && left < world_size_) {
      Add("spec.roles",
          WrongFile(path,
                    std::to_string(world_size_) + " ranks found, but only " + std::to_string(left) +
                        " training samples; expected at least one sample for each rank's model"));
      return;
    }
    const int64_t of_model = has_own_models ? left / world_size_ : left;  // the smallest part
    if (of_model < batch_size && spec_.remainder == RemainderRule::kDrop) {
      Add("spec.training.remainder",
          WrongFile(path,
                    "Drop found, which drops all " + std::to_string(of_model) + " samples" +
                        (has_own_models ? " of a rank" : "") + ", because globalBatchSize is " +
                        std::to_string(batch_size)));
    }
  }

  std::vector<Error> Take() { return std::move(errors_); }

 private:
  void CheckWhole(const std::string& field, const std::string& path, const Header& header) {
    if (const Status whole = CheckLength(path, header); !whole.ok()) {
      Add(field, whole.error());
    }
  }

  void CheckFit(const std::string& field, const std::string& path, const Shape& shape) {
    const Shape& wanted = spec_.model.input_shape;
    if (ValueCount(shape, 1) != ValueCount(wanted, 0)) {
      Add(field,
          WrongFile(
              path,
              "samples of shape " + FormatShape(Shape(shape.begin() + 1, shape.end())) +
                  " found, expected as many values per sample as spec.training.model.inputShape " +
                  FormatShape(wanted) + " has"));
    }
  }

  // Whether the loss can compare a sample's labels with the model's outputs.
  void CheckLabelWidth(const std::string& path, int64_t width) {
    const auto shapes = InferShapes(spec_.model);
    if (!shapes.ok() || shapes->empty()) {
      return;  // the field's own error is told elsewhere
    }
    const LossType loss = spec_.loss.type;
    const int64_t outputs = shapes->back().output.back();
    const bool reads_one = loss == LossType::kSparseCategoricalCrossentropy;
    const int64_t expected = reads_one ? 1 : outputs;
    if (width != expected && !ReadsClassNumbers(loss, width, outputs)) {
      Add("spec.training.loss.type",
          WrongFile(path,
                    Plural(width, "label value") + " per sample found, expected " +
                        std::to_string(expected) + ": " + std::string(LossTypeName(loss)) +
                        (reads_one ? " reads one class number per sample"
                                   : " needs a label value for each of the model's " +
                                         Plural(outputs, "output"))));
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
  int64_t world_size_;
  std::vector<Error> errors_;
};

}  // namespace

std::vector<Error> CheckDataFiles(const TrainingSpec& spec,
                                  const std::string& folder,
                                  int64_t world_size) {
  DataCheck check(spec, folder, world_size);
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
