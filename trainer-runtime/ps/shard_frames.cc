#include "trainer-runtime/ps/shard_frames.h"

#include <utility>

#include "trainer-runtime/ps/shard_frame_reader.h"
#include "trainer-runtime/ps/shard_frame_writer.h"

namespace lockstep::runtime {

std::string EncodeShardFrame(const ShardFrame& frame) {
  FrameWriter out;
  out.Number(frame.shard);
  out.OneOf(frame.message);
  return std::move(out).Take();
}

Result<ShardFrame> DecodeShardFrame(std::string_view bytes) {
  FrameReader in(bytes);
  ShardFrame frame;
  frame.shard = in.Int();
  in.OneOf(&frame.message);
  if (!in.ok() || !in.is_at_end()) {
    return Error(ErrorCode::kCorrupt,
                 "malformed shard message of " + std::to_string(bytes.size()) + " bytes");
  }
  return frame;
}

}  // namespace lockstep::runtime
