#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::runtime {

// The safetensors layout: 8 bytes little-endian header length, a JSON header padded with spaces to
// a multiple of 8, then the tensors' bytes side by side. Any safetensors library reads it.
// Source: github.com/huggingface/safetensors, README "Format".

enum class TensorType { kFloat32, kUInt8 };

// A tensor inside or on its way into such a file. Shapes: bytes [product of shape * element size].
struct TensorSlice {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape;
  std::string_view bytes;  // little-endian, row-major; not owned
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// The file's bytes; equal input gives equal bytes. Preconditions (checked): names are unique and
// not "__metadata__", bytes fit the shape.
std::string EncodeSafetensors(std::span<const TensorSlice> tensors,
                              const SafetensorsMetadata& metadata);

// The tensors in the order of the header; their bytes point into `file`. Strict: unknown element
// types, holes, overlaps, sizes that do not fit and trailing bytes are errors.
// Errors: kCorrupt.
Result<std::vector<TensorSlice>> DecodeSafetensors(std::string_view file);

}  // namespace lockstep::runtime
