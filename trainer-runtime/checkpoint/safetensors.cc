#include "trainer-runtime/checkpoint/safetensors.h"

#include <bit>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are copied as they lie");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kHeaderBytesMax = 100'000'000;  // the format's own limit
constexpr const char* kMetadataKey = "__metadata__";

std::size_t ElementSize(TensorType type) {
  return type == TensorType::kFloat32 ? sizeof(float) : sizeof(uint8_t);
}

const char* TypeName(TensorType type) {
  return type == TensorType::kFloat32 ? "F32" : "U8";
}

Error Corrupt(const std::string& what) {
  return Error(ErrorCode::kCorrupt, "safetensors: " + what);
}

// Bytes of a tensor; nullopt when that number does not exist.
std::optional<std::size_t> ByteSize(TensorType type, const std::vector<int64_t>& shape) {
  std::size_t size = ElementSize(type);
  for (const int64_t length : shape) {
    if (length < 0 || (length > 0 && size > std::numeric_limits<std::size_t>::max() /
                                                static_cast<std::size_t>(length))) {
      return std::nullopt;
    }
    size *= static_cast<std::size_t>(length);
  }
  return size;
}

std::optional<std::vector<int64_t>> ReadIntegers(const std::vector<const Json*>& items) {
  std::vector<int64_t> numbers;
  for (const Json* item : items) {
    if (!item->is_number_unsigned() ||
        item->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return std::nullopt;
    }
    numbers.push_back(item->get<int64_t>());
  }
  return numbers;
}

// Reads one header entry. `begin` is where the tensor must start in `data`.
Result<TensorSlice> DecodeEntry(const std::string& name,
                                const Json& entry,
                                std::string_view data,
                                std::size_t begin) {
  std::vector<Error> errors;
  ObjectReader reader(entry, name, &errors);
  TensorSlice tensor;
  tensor.name = name;
  const std::optional<std::string> type = reader.Choice("dtype", {"F32", "U8"});
  tensor.type = type == "U8" ? TensorType::kUInt8 : TensorType::kFloat32;
  const auto shape = ReadIntegers(reader.List("shape"));
  const auto offsets = ReadIntegers(reader.List("data_offsets"));
  reader.Finish();
  if (!errors.empty()) {
    return Corrupt(errors.front().ToString());
  }
  if (!type.has_value() || !shape.has_value() || !offsets.has_value() || offsets->size() != 2) {
    return Corrupt(name + ": expected dtype, shape and two data_offsets");
  }
  tensor.shape = *shape;
  const std::optional<std::size_t> size = ByteSize(tensor.type, tensor.shape);
  const auto offset = static_cast<std::size_t>(offsets->front());
  const auto end = static_cast<std::size_t>(offsets->back());
  if (!size.has_value() || offset != begin || end < begin || end - begin != *size ||
      end > data.size()) {
    return Corrupt(name + ": bytes " + std::to_string(offset) + " to " + std::to_string(end) +
                   " of " + std::to_string(data.size()) + ", expected a start at " +
                   std::to_string(begin) + " and the size of its shape");
  }
  tensor.bytes = data.substr(begin, *size);
  return tensor;
}

}  // namespace

std::string EncodeSafetensors(std::span<const TensorSlice> tensors,
                              const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  header[kMetadataKey] = metadata;
  std::size_t offset = 0;
  for (const TensorSlice& tensor : tensors) {
    LOCKSTEP_CHECK(!header.contains(tensor.name), "tensor name used twice: " + tensor.name);
    LOCKSTEP_CHECK(ByteSize(tensor.type, tensor.shape) == tensor.bytes.size(),
                   tensor.name + " has " + std::to_string(tensor.bytes.size()) + " bytes");
    header[tensor.name] = {{"dtype", TypeName(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = DumpJson(header);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  LOCKSTEP_CHECK(text.size() <= kHeaderBytesMax, "header of " + std::to_string(text.size()));

  std::string file;
  file.reserve(kLengthBytes + text.size() + offset);
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    file.push_back(static_cast<char>(uint64_t{text.size()} >> (8 * i) & 0xffU));
  }
  file += text;
  for (const TensorSlice& tensor : tensors) {
    file += tensor.bytes;
  }
  return file;
}

Result<std::vector<TensorSlice>> DecodeSafetensors(std::string_view file) {
  if (file.size() < kLengthBytes) {
    return Corrupt(std::to_string(file.size()) + " bytes, expected a header length");
  }
  uint64_t header_size = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header_size |= uint64_t{static_cast<unsigned char>(file[i])} << (8 * i);
  }
  if (header_size > kHeaderBytesMax || header_size > file.size() - kLengthBytes) {
    return Corrupt("header of " + std::to_string(header_size) + " bytes in a file of " +
                   std::to_string(file.size()));
  }
  Result<Json> header = ParseJson(file.substr(kLengthBytes, header_size));
  if (!header.ok()) {
    return Corrupt("header: " + header.error().message());
  }
  if (!header->is_object()) {
    return Corrupt("header is " + DescribeJson(*header) + ", expected an object");
  }
  const std::string_view data = file.substr(kLengthBytes + header_size);
  std::vector<TensorSlice> tensors;
  std::size_t end = 0;
  for (const auto& [name, entry] : header->items()) {
    if (name == kMetadataKey) {
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(TensorSlice tensor, DecodeEntry(name, entry, data, end));
    end += tensor.bytes.size();
    tensors.push_back(std::move(tensor));
  }
  if (end != data.size()) {
    return Corrupt(std::to_string(data.size()) + " bytes of tensors, expected " +
                   std::to_string(end));
  }
  return tensors;
}

}  // namespace lockstep::runtime
