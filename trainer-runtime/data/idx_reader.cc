#include "trainer-runtime/data/idx_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <zlib.h>

#include "common/base/io/file.h"
#include "common/contract/training/training_spec.h"

namespace lockstep::runtime {
namespace {

// An IDX file starts with two zero bytes, the element type and the number of dimensions, then one
// big-endian 32-bit length a dimension.
constexpr std::size_t kMagicBytes = 4;
constexpr unsigned kUnsignedByteType = 0x08;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kDimensionsMax = 8;  // choice: images of the widest data sets have four

constexpr std::string_view kGzipMagic = "\x1f\x8b";

Error Corrupt(const std::string& name, const std::string& what) {
  return Error(ErrorCode::kCorrupt, name + ": " + what);
}

Error TooLarge(const std::string& name, const std::string& found, std::size_t bytes_max) {
  return Error(ErrorCode::kInvalidArgument,
               name + ": " + found + ", expected at most " + std::to_string(bytes_max) + " bytes");
}

unsigned ByteAt(std::string_view bytes, std::size_t index) {
  return static_cast<unsigned char>(bytes[index]);
}

std::string HexText(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// Of the types that the format knows and this reader does not; empty for all others.
std::string TypeName(unsigned type) {
  switch (type) {
    case 0x09:
      return " (signed byte)";
    case 0x0b:
      return " (16-bit integer)";
    case 0x0c:
      return " (32-bit integer)";
    case 0x0d:
      return " (32-bit float)";
    case 0x0e:
      return " (64-bit float)";
    default:
      return "";
  }
}

// zlib's inflate state, with its end.
class Inflater {
 public:
  Inflater() {
    constexpr int kGzipOnly = 16;  // added to the window bits: expect a gzip header, check its sum
    is_ready_ = inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK;
  }

  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  ~Inflater() {
    if (is_ready_) {
      inflateEnd(&stream_);
    }
  }

  bool is_ready() const { return is_ready_; }

  z_stream* operator->() { return &stream_; }

  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
  bool is_ready_ = false;
};

// Inflates gzip members to the end (RFC 1952 has files put together of several); other bytes after
// one are refused, as after a plain file.
Result<std::string> Gunzip(std::string_view whole, const std::string& name, std::size_t bytes_max) {
  std::string_view bytes = whole;  // that zlib has not been given yet
  Inflater inflater;
  if (!inflater.is_ready()) {
    return Error(ErrorCode::kResourceExhausted, name + ": not enough memory to decompress it");
  }
  std::string content;
  std::array<char, 65536> block{};
  while (true) {
    if (inflater->avail_in == 0) {  // zlib counts in 32 bits, so large files go in by parts
      const std::size_t part =
          std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      // zlib reads only; its interface predates const.
      inflater->next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
      inflater->avail_in = static_cast<uInt>(part);
      bytes.remove_prefix(part);
    }
    inflater->next_out = reinterpret_cast<Bytef*>(block.data());
    inflater->avail_out = block.size();
    const int code = inflate(inflater.get(), Z_NO_FLUSH);
    if (code == Z_BUF_ERROR) {
      return Corrupt(name,
                     "gzip data ends after " + std::to_string(content.size()) +
                         " decompressed bytes, before the end of its stream: the file is cut off");
    }
    if (code != Z_OK && code != Z_STREAM_END) {
      const char* reason = inflater->msg == nullptr ? zError(code) : inflater->msg;
      return Corrupt(name,
                     "gzip data is damaged after " + std::to_string(content.size()) +
                         " decompressed bytes: " + reason);
    }
    content.append(block.data(), block.size() - inflater->avail_out);
    if (content.size() > bytes_max) {
      return TooLarge(name, "decompresses to more than the limit", bytes_max);
    }
    if (code == Z_STREAM_END) {
      bytes = whole.substr(whole.size() - bytes.size() - inflater->avail_in);
      if (bytes.empty()) {
        return content;
      }
      if (bytes.substr(0, kGzipMagic.size()) != kGzipMagic) {
        return Corrupt(
            name, std::to_string(bytes.size()) + " bytes after the gzip stream, expected none");
      }
      inflater->avail_in = 0;
      inflateReset(inflater.get());
    }
  }
}

// Reads the header into a tensor without values, and says how many values must follow.
Result<IdxTensor> DecodeHeader(std::string_view bytes,
                               const std::string& name,
                               std::size_t bytes_max) {
  if (bytes.size() < kMagicBytes) {
    return Corrupt(name, std::to_string(bytes.size()) + " bytes, expected an IDX header");
  }
  if (ByteAt(bytes, 0) != 0 || ByteAt(bytes, 1) != 0) {
    return Corrupt(name,
                   "magic " + HexText(bytes.substr(0, kMagicBytes)) +
                       ", expected 0x000008 and the number of dimensions (IDX)");
  }
  if (ByteAt(bytes, 2) != kUnsignedByteType) {
    return Corrupt(name,
                   "element type " + HexText(bytes.substr(2, 1)) + TypeName(ByteAt(bytes, 2)) +
                       ", expected 0x08: only unsigned bytes are supported");
  }
  const std::size_t dimensions = ByteAt(bytes, 3);
  if (dimensions == 0 || dimensions > kDimensionsMax) {
    return Corrupt(name,
                   std::to_string(dimensions) + " dimensions, expected 1 to " +
                       std::to_string(kDimensionsMax));
  }
  bytes.remove_prefix(kMagicBytes);
  if (bytes.size() < dimensions * kLengthBytes) {
    return Corrupt(
        name, "header ends early, expected " + std::to_string(dimensions) + " dimension sizes");
  }
  IdxTensor tensor;
  uint64_t count = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    uint64_t length = 0;
    for (std::size_t k = 0; k < kLengthBytes; ++k) {
      length = length << 8 | ByteAt(bytes, i * kLengthBytes + k);
    }
    tensor.shape.push_back(static_cast<int64_t>(length));
    // A length is below 2^32 and count at most bytes_max, so only a bound near 2^64 could wrap.
    if (length != 0 && count > bytes_max / length) {
      return TooLarge(name, "dimensions " + FormatShape(tensor.shape), bytes_max);
    }
    count *= length;
  }
  return tensor;
}

}  // namespace

Result<IdxTensor> DecodeIdx(std::string_view bytes,
                            const std::string& name,
                            std::size_t bytes_max) {
  std::string inflated;
  if (bytes.substr(0, kGzipMagic.size()) == kGzipMagic) {
    const std::size_t header_max = kMagicBytes + kDimensionsMax * kLengthBytes;
    LOCKSTEP_ASSIGN_OR_RETURN(inflated, Gunzip(bytes, name, bytes_max + header_max));
    bytes = inflated;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(IdxTensor tensor, DecodeHeader(bytes, name, bytes_max));
  bytes.remove_prefix(kMagicBytes + tensor.shape.size() * kLengthBytes);
  std::size_t expected = 1;
  for (const int64_t length : tensor.shape) {
    expected *= static_cast<std::size_t>(length);
  }
  if (bytes.size() != expected) {
    return Corrupt(name,
                   std::to_string(bytes.size()) + " bytes of values, expected " +
                       std::to_string(expected) + " for dimensions " + FormatShape(tensor.shape) +
                       (bytes.size() < expected ? " (truncated)" : " (trailing bytes)"));
  }
  tensor.values.assign(bytes.begin(), bytes.end());
  return tensor;
}

Result<IdxTensor> ReadIdxFile(const std::string& path, std::size_t bytes_max) {
  // Gzip of incompressible bytes is longer than they are, by far less than this.
  constexpr std::size_t kOverhead = 1 << 20;
  const std::size_t file_max = bytes_max + bytes_max / 1000 + kOverhead;
  std::error_code error;
  if (std::filesystem::is_fifo(path, error)) {
    // Opening it would wait for a writer.
    return Error(ErrorCode::kInvalidArgument, path + " is a pipe, expected a file");
  }
  const std::uintmax_t file_bytes = std::filesystem::file_size(path, error);
  if (!error && file_bytes > file_max) {  // otherwise reading says what is wrong
    return TooLarge(path, std::to_string(file_bytes) + " bytes", bytes_max);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, file_max));
  return DecodeIdx(bytes, path, bytes_max);
}

}  // namespace lockstep::runtime
