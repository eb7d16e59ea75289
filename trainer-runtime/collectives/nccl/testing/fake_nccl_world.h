#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trainer-runtime/collectives/nccl/nccl_api.h"

namespace lockstep::runtime {

// The ranks of one identity in the double of NCCL: memory that their processes share. Whoever makes
// the identity holds the memory; the others find it by that process's number and descriptor, which
// is what the identity says. Nothing of it outlives the processes.
//
// As with the real one nobody notices that a peer has died: what waits for it waits until it is
// told to stop.
class FakeNcclWorld {
 public:
  static constexpr int kRanksMax = 16;
  static constexpr std::size_t kChunkBytes = 64 * 1024;

  // Makes the memory of a new identity. False: the system refuses.
  static bool MakeIdentity(nccl::UniqueId* id);

  // The memory of `id`; null: it is gone.
  static std::unique_ptr<FakeNcclWorld> Open(const nccl::UniqueId& id);

  FakeNcclWorld(const FakeNcclWorld&) = delete;
  FakeNcclWorld& operator=(const FakeNcclWorld&) = delete;
  ~FakeNcclWorld();

  // Comes in as `rank` and waits for all others, or until `stop`. Whether all came.
  bool Meet(int rank, int world_size, const std::atomic<bool>& stop);

  // Whether all that came have this release: patches, too. To be asked when all have come.
  bool AreAllOf(int version, int world_size) const;

  // What one rank brings to a sum.
  struct Part {
    int rank = 0;
    void* data = nullptr;  // [count]
    std::size_t count = 0;
  };

  // Sums the numbers of all ranks in place, in rank order: float or double. Whether it came to its
  // end before `stop`.
  template <typename Number>
  bool Sum(const Part& part, int world_size, const std::atomic<bool>& stop);

 private:
  struct Seat {
    std::atomic<int32_t> has_come;   // the version of NCCL that has; 0: not yet
    std::atomic<uint64_t> laid_out;  // chunks
    std::atomic<uint64_t> taken;     // chunks
  };

  struct Memory {
    Seat seats[kRanksMax];
    alignas(64) std::byte chunks[kRanksMax][kChunkBytes];
  };

  explicit FakeNcclWorld(Memory* memory) : memory_(memory) {}

  bool Await(int world_size,
             std::atomic<uint64_t> Seat::*progress,
             uint64_t target,
             const std::atomic<bool>& stop);

  Memory* memory_;
  uint64_t chunk_count_ = 0;  // of all sums so far, equal on all ranks
};

}  // namespace lockstep::runtime
