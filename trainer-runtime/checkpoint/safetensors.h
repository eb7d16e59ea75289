#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::runtime {

// The safetensors layout: 8 bytes little-endian header length, a JSON header padded with spaces to
// a multiple of 8, then the tensors' bytes side by side. Any safetensors library reads it.
// Source: github.com/huggingface/safetensors, README "Format".

enum class TensorType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool
};

// Its name in such a file, "F32"; and the type of that name.
const char* TensorTypeName(TensorType type);
std::optional<TensorType> TensorTypeOf(std::string_view name);

// A tensor inside or on its way into such a file. Shapes: bytes [product of shape * element size].
struct TensorSlice {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;
  std::string_view bytes;  // little-endian, row-major; not owned
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Whether these can stand in one file: names are unique and not "__metadata__", bytes fit the
// shape. Errors: kInvalidArgument, by the tensor's name.
Status CheckTensors(std::span<const TensorSlice> tensors);

// The file's bytes; equal input gives equal bytes. Precondition (checked): CheckTensors.
std::string EncodeSafetensors(std::span<const TensorSlice> tensors,
                              const SafetensorsMetadata& metadata);

// The tensors in the order of the header; their bytes point into `file`. The texts of its metadata
// go to `metadata`, if that is not null. Strict: unknown element types, holes, overlaps, sizes that
// do not fit and trailing bytes are errors. Errors: kCorrupt.
Result<std::vector<TensorSlice>> DecodeSafetensors(std::string_view file,
                                                   SafetensorsMetadata* metadata = nullptr);

}  // namespace lockstep::runtime
