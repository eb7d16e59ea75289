#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trainer-runtime/collectives/communicator/call.h"

namespace lockstep::runtime {

// Two cache lines: the core fetches lines in pairs, so words written by different ranks stay that
// far apart.
constexpr std::size_t kLinePair = 128;

// The least multiple of `multiple` that is at least `value`.
constexpr std::size_t RoundUp(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// What one rank tells the others about its progress. Counters only grow (modulo 2^32); each is
// written by its rank alone, after the bytes it speaks of. Of data in lent memory nothing is laid
// out: there `staged` counts the chunks that the rank has read of the others'.
struct RankProgress {
  alignas(kLinePair) std::atomic<uint32_t> staged;     // chunks of input laid out for the others
  alignas(kLinePair) std::atomic<uint32_t> reduced;    // chunks of its slice combined
  alignas(kLinePair) std::atomic<uint32_t> completed;  // sequence of the last call it finished
  alignas(kLinePair) std::atomic<uint32_t> sleepers;   // ranks asleep on a word of this rank
};

// A rank's announcement of one call; its payload follows, in the same line as far as it fits.
struct Post {
  std::atomic<uint32_t> sequence;  // low bits of call.sequence, written last
  uint32_t reserved;
  Call call;

  std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
};

// The first failure of any rank, for all to report.
struct FailureRecord {
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kBeingWritten = 1;
  static constexpr uint32_t kWritten = 2;
  static constexpr std::size_t kTextSize = 1000;

  std::atomic<uint32_t> state;
  int32_t code;
  int32_t rank;
  uint32_t text_size;
  char text[kTextSize];
};

// Where things lie in the segment, computed alike by every rank:
//
//   FailureRecord | RankProgress of rank 0, 1, ... | posts | stages | results
//
// posts: for each rank two (calls of even and odd sequence), each with room for a whole small
// message. stages: for each rank kStageDepth chunks of input for the others. results: for each rank
// as many combined slices. Two posts are enough because a rank that finishes call s has seen
// everyone's post of s, so everyone has finished s-1.
class SharedMemoryLayout {
 public:
  // Chunks in flight per rank. In step k a rank lays out chunk k, combines its slice of k-1, and
  // copies out k-2. So before it lays out chunk k over k-3, it has copied out k-3 from all, who
  // have combined it; and before it combines chunk k over k-3, it has seen everyone lay out chunk
  // k, for which they have copied out k-3. Stages and results lie apart because slices of other
  // calls begin elsewhere: either may only lie over its own kind.
  static constexpr std::size_t kStageDepth = 3;

  SharedMemoryLayout(std::byte* base, int world_size);

  // Bytes a segment for `world_size` ranks needs.
  static std::size_t ByteCount(int world_size);

  // Largest message that travels in the post itself.
  static std::size_t SmallBytesMax(int world_size);

  // Bytes of one chunk: all slices together.
  static std::size_t ChunkBytes(int world_size);

  FailureRecord* failure() const { return reinterpret_cast<FailureRecord*>(base_); }

  RankProgress* progress(int rank) const { return progress_ + rank; }

  Post* post(int rank, uint64_t sequence) const {
    const auto index = static_cast<std::size_t>(rank) * 2 + sequence % 2;
    return reinterpret_cast<Post*>(posts_ + index * post_stride_);
  }

  std::byte* stage(int rank, uint64_t chunk) const {
    const auto index = static_cast<std::size_t>(rank) * kStageDepth + chunk % kStageDepth;
    return stages_ + index * chunk_bytes_;
  }

  std::byte* result(int rank, uint64_t chunk) const {
    const auto index = static_cast<std::size_t>(rank) * kStageDepth + chunk % kStageDepth;
    return results_ + index * result_stride_;
  }

  std::size_t small_bytes_max() const { return small_bytes_max_; }

  std::size_t chunk_bytes() const { return chunk_bytes_; }

 private:
  std::byte* base_;
  std::size_t small_bytes_max_;
  std::size_t chunk_bytes_;
  std::size_t post_stride_;
  RankProgress* progress_;
  std::byte* posts_;
  std::byte* stages_;
  std::byte* results_;
  std::size_t result_stride_;
};

}  // namespace lockstep::runtime
