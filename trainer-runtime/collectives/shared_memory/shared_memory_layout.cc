#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

constexpr std::size_t kPageSize = 4096;

std::size_t PostStride(int world_size) {
  return RoundUp(sizeof(Post) + SharedMemoryLayout::SmallBytesMax(world_size), kPageSize);
}

std::size_t PostsOffset(int world_size) {
  return RoundUp(RoundUp(sizeof(FailureRecord), kLinePair) +
                     sizeof(RankProgress) * static_cast<std::size_t>(world_size),
                 kPageSize);
}

std::size_t StagesOffset(int world_size) {
  return PostsOffset(world_size) +
         2 * static_cast<std::size_t>(world_size) * PostStride(world_size);
}

std::size_t ResultsOffset(int world_size) {
  return StagesOffset(world_size) + static_cast<std::size_t>(world_size) *
                                        SharedMemoryLayout::kStageDepth *
                                        SharedMemoryLayout::ChunkBytes(world_size);
}

// Room for one slice, rounded up as slices are.
std::size_t ResultStride(int world_size) {
  return RoundUp(
      SharedMemoryLayout::ChunkBytes(world_size) / static_cast<std::size_t>(world_size) + kLinePair,
      kPageSize);
}

}  // namespace

std::size_t SharedMemoryLayout::SmallBytesMax(int world_size) {
  // Every rank reads the messages of all. Measured with 2 ranks: at 64 KB each, one wait and twice
  // the reading cost what two waits and half the reading cost; choice: half of that.
  constexpr std::size_t kBytesReadMax = 64 * 1024;
  return RoundUp(kBytesReadMax / static_cast<std::size_t>(world_size), kLinePair);
}

std::size_t SharedMemoryLayout::ChunkBytes(int world_size) {
  // Measured with 2 ranks at 4 MB: 600 us with chunks of 64 KB, 500 with 128, 270 with 256, 195
  // with 512; 640 KB and more bring nothing (a core's second-level cache holds 1 MB).
  constexpr std::size_t kChunkBytes = 512 * 1024;
  // Choice: what all ranks together may stage, so that 64 ranks do not take 96 MB.
  constexpr std::size_t kStagesMax = 32 * 1024 * 1024;
  const std::size_t share = kStagesMax / kStageDepth / static_cast<std::size_t>(world_size);
  return std::min(kChunkBytes, share / kPageSize * kPageSize);
}

std::size_t SharedMemoryLayout::ByteCount(int world_size) {
  return ResultsOffset(world_size) +
         static_cast<std::size_t>(world_size) * kStageDepth * ResultStride(world_size);
}

SharedMemoryLayout::SharedMemoryLayout(std::byte* base, int world_size)
    : base_(base),
      small_bytes_max_(SmallBytesMax(world_size)),
      chunk_bytes_(ChunkBytes(world_size)),
      post_stride_(PostStride(world_size)),
      progress_(reinterpret_cast<RankProgress*>(base + RoundUp(sizeof(FailureRecord), kLinePair))),
      posts_(base + PostsOffset(world_size)),
      stages_(base + StagesOffset(world_size)),
      results_(base + ResultsOffset(world_size)),
      result_stride_(ResultStride(world_size)) {}

}  // namespace lockstep::runtime
