#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/result.h"
#include "trainer-runtime/strategy/parameter_server/shard_messages.h"

namespace lockstep::runtime {

// A message of one shard, on its way between two processes.
struct ShardFrame {
  int shard = 0;
  std::variant<WorkerRequest, WorkerReply, CopyMessage> message;
};

// Bounds of what is read, so that a damaged count is refused before memory is asked for. Choices:
// four times the ranks of a job, and a tensor of a hundred billion numbers.
inline constexpr uint64_t kFrameWorkersMax = 16384;
inline constexpr uint64_t kFrameValuesMax = 100'000'000'000;

// One byte for the kind, then fields in the order of the structs: numbers of 64 bits, values as
// their count and float32; everything little endian. Absent values are a count of 2^64 - 1.
std::string EncodeShardFrame(const ShardFrame& frame);

// Errors: kCorrupt (unknown kind, cut short, bytes left over, number out of range).
Result<ShardFrame> DecodeShardFrame(std::string_view bytes);

}  // namespace lockstep::runtime
