#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::runtime {

// The content of an IDX file of unsigned bytes: images [count, height, width], labels [count].
struct IdxTensor {
  std::vector<int64_t> shape;   // outermost first; at least one dimension
  std::vector<uint8_t> values;  // row-major; as many as the product of `shape`
};

// Largest content accepted unless told otherwise: every rank holds the whole set in memory, and
// 1 GiB is 20 times the full MNIST. A choice.
inline constexpr std::size_t kIdxBytesMax = std::size_t{1} << 30;

// Reads an IDX file, plain or gzip (told apart by the first two bytes, never by the name).
// Errors, each naming the file, what was found and what was expected: kNotFound, kIo, kCorrupt
// (magic, element type, truncated header, gzip or payload, trailing bytes, gzip checksum),
// kInvalidArgument (more than `bytes_max` bytes, in the file, announced or inflated; a folder).
// Source: the format's description at yann.lecun.com/exdb/mnist.
Result<IdxTensor> ReadIdxFile(const std::string& path, std::size_t bytes_max = kIdxBytesMax);

// The same for bytes in memory; `name` stands for the file in errors.
Result<IdxTensor> DecodeIdx(std::string_view bytes,
                            const std::string& name,
                            std::size_t bytes_max = kIdxBytesMax);

}  // namespace lockstep::runtime
