#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"

namespace lockstep::runtime {

// What the ranks of one host have lent each other, as one of them sees it: its own memory, which it
// alone can write, and that of all others, which it can only read. So a rank that is thought dead,
// and wakes, changes nothing of anybody's.
//
//   rank 0's view   | own: write | 1: read    | 2: read    |
//   rank 1's view   | 0: read    | own: write | 2: read    |
//
// Empty: nobody lends anything. A rank's own memory outlives this; the others' mappings end with
// it.
class LentMemory {
 public:
  // Of a sum that is made where its numbers lie, all slices of a chunk together. Measured with 2
  // ranks at 4 and 16 MB: 415 and 1770 us with chunks of 512 KB, 345 and 1430 with 1 MB, 300 and
  // 1260 with 2 MB, and no better with more; with 3 ranks on 2 cores 15 % less at 16 MB. Nothing is
  // staged, so no memory asks for smaller ones.
  static constexpr std::size_t kChunkBytes = 2 * 1024 * 1024;

  LentMemory() = default;

  // Shapes: memories [ranks], all of one size; memories[rank] is the rank's own.
  LentMemory(int rank, std::vector<SharedSegment> memories);

  bool is_empty() const { return memories_.empty(); }

  // Where `data` lies in this rank's own memory: its offset plus one, so that 0 is nowhere.
  // Precondition (checked): it does not lie there with a part only.
  uint64_t PlaceOf(const void* data, std::size_t byte_count) const;

  // Whether so many bytes from `place` on lie in a rank's memory; of nowhere they do not.
  bool Contains(uint64_t place, std::size_t byte_count) const;

  // What lies at that place in the memory of `rank`. Precondition: `place` came from PlaceOf, or
  // Contains says so.
  const std::byte* At(int rank, uint64_t place) const {
    return memories_[static_cast<std::size_t>(rank)].data() + (place - 1);
  }

 private:
  int rank_ = 0;
  std::vector<SharedSegment> memories_;
};

// Maps what the other ranks lend. Collective among the ranks of `options`, all on one host, each of
// which lends as many bytes (options.lent, not null). Empty where one of them cannot: it is all or
// none. Errors: kTimeout, kPeerLost, kIo and kin, of the links.
Result<LentMemory> ShareLentMemory(const CommunicatorOptions& options, Deadline deadline);

}  // namespace lockstep::runtime
