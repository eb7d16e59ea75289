#include "trainer-runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are copied byte by byte, and safetensors are little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kHeaderBytesMax = 100'000'000;  // the format's own limit
constexpr std::size_t kTensorsMax = 1 << 20;          // choice: far above any model
constexpr const char* kMetadataKey = "__metadata__";

struct TypeRow {
  TensorType type;
  const char* name;
  std::size_t element_size;
};

constexpr TypeRow kTypes[] = {{TensorType::kFloat64, "F64", 8},
                              {TensorType::kFloat32, "F32", 4},
                              {TensorType::kFloat16, "F16", 2},
                              {TensorType::kBFloat16, "BF16", 2},
                              {TensorType::kInt64, "I64", 8},
                              {TensorType::kInt32, "I32", 4},
                              {TensorType::kInt16, "I16", 2},
                              {TensorType::kInt8, "I8", 1},
                              {TensorType::kUInt8, "U8", 1},
                              {TensorType::kBool, "BOOL", 1}};

const TypeRow& RowOf(TensorType type) {
  return *std::ranges::find(kTypes, type, &TypeRow::type);
}

std::vector<std::string_view> TypeNames() {
  std::vector<std::string_view> names;
  for (const TypeRow& row : kTypes) {
    names.emplace_back(row.name);
  }
  return names;
}

// Nothing but ASCII: the shortest form that all readers of JSON agree on.
std::string AsciiJson(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Error Corrupt(const std::string& what) {
  return Error(ErrorCode::kCorrupt, "safetensors: " + what);
}

// Bytes of a tensor; nullopt when that number does not exist.
std::optional<std::size_t> ByteSize(TensorType type, const std::vector<int64_t>& shape) {
  std::size_t size = RowOf(type).element_size;
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
  const std::optional<std::string> type = reader.Choice("dtype", TypeNames());
  tensor.type = TensorTypeOf(type.value_or("")).value_or(TensorType::kFloat32);
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
                   " of " + std::to_string(data.size()) + " found, expected bytes that begin at " +
                   std::to_string(begin) + " and have the size of its shape");
  }
  tensor.bytes = data.substr(begin, *size);
  return tensor;
}

void ReadMetadata(const Json& object, SafetensorsMetadata* metadata) {
  for (const auto& [key, value] : object.items()) {
    if (metadata != nullptr && value.is_string()) {
      metadata->emplace(key, value.get<std::string>());
    }
  }
}

}  // namespace

const char* TensorTypeName(TensorType type) {
  return RowOf(type).name;
}

std::optional<TensorType> TensorTypeOf(std::string_view name) {
  const auto* const row = std::ranges::find(kTypes, name, &TypeRow::name);
  return row == std::end(kTypes) ? std::nullopt : std::optional(row->type);
}

Status CheckTensors(std::span<const TensorSlice> tensors) {
  std::set<std::string_view> names = {kMetadataKey};
  for (const TensorSlice& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Error(ErrorCode::kInvalidArgument, "two tensors have the name " + tensor.name);
    }
    const std::optional<std::size_t> size = ByteSize(tensor.type, tensor.shape);
    if (size != tensor.bytes.size()) {
      return Error(ErrorCode::kInvalidArgument,
                   tensor.name + " has " + std::to_string(tensor.bytes.size()) +
                       " bytes, expected the " + (size ? std::to_string(*size) + " " : "") +
                       "bytes of its shape");
    }
  }
  return OkStatus();
}

std::string EncodeSafetensors(std::span<const TensorSlice> tensors,
                              const SafetensorsMetadata& metadata) {
  const Status sound = CheckTensors(tensors);
  LOCKSTEP_CHECK(sound.ok(), sound.error().ToString());
  // As text, because a Json object looks through all its keys for each new one.
  std::string text = "{\"" + std::string(kMetadataKey) + "\":" + AsciiJson(Json(metadata));
  std::size_t offset = 0;
  for (const TensorSlice& tensor : tensors) {
    const Json entry = {{"dtype", TensorTypeName(tensor.type)},
                        {"shape", tensor.shape},
                        {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    text += "," + AsciiJson(Json(tensor.name)) + ":" + AsciiJson(entry);
    offset += tensor.bytes.size();
  }
  text += "}";
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

Result<std::vector<TensorSlice>> DecodeSafetensors(std::string_view file,
                                                   SafetensorsMetadata* metadata) {
  if (file.size() < kLengthBytes) {
    return Corrupt(std::to_string(file.size()) + " bytes, expected a header length");
  }
  uint64_t header_size = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header_size |= uint64_t{static_cast<unsigned char>(file[i])} << (8 * i);
  }
  if (header_size > kHeaderBytesMax || header_size > file.size() - kLengthBytes) {
    return Corrupt("header of " + std::to_string(header_size) + " bytes found in a file of " +
                   std::to_string(file.size()) + " bytes");
  }
  Result<Json> header = ParseJson(file.substr(kLengthBytes, header_size), kTensorsMax);
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
      ReadMetadata(entry, metadata);
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
