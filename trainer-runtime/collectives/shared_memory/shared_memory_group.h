#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/call.h"
#include "trainer-runtime/collectives/communicator/failure_latch.h"
#include "trainer-runtime/collectives/communicator/wait_habit.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"

namespace lockstep::runtime {

// How the ranks of one segment tell and await progress, and notice that waiting has become
// pointless. Thread: one, but Fail() and the questions about failure from any.
class SharedMemoryGroup {
 public:
  // The links of `options` are looked at, never read: their end is the death of a peer.
  SharedMemoryGroup(int rank, SharedMemoryLayout layout, CommunicatorOptions options);

  const SharedMemoryLayout& layout() const { return layout_; }

  bool has_failed() const noexcept { return failure_.is_set(); }

  // The first error. Precondition: has_failed().
  Error failure() const { return failure_.Get(); }

  // Announces the call; `payload_size` bytes of `payload` travel with it.
  void PostCall(const Call& call, const void* payload, std::size_t payload_size);

  // Waits until `peer` has announced its call, and compares. At once for this rank itself.
  Status AwaitPost(const CallContext& context, int peer);

  // Sets a word of this rank, after everything written before, and wakes who sleeps on it.
  void Publish(std::atomic<uint32_t>& word, uint32_t value);

  // Waits until `word` of `peer` has reached `target`, modulo 2^32.
  Status Await(const CallContext& context,
               const std::atomic<uint32_t>& word,
               uint32_t target,
               int peer) {
    return HasReached(word, target) ? OkStatus() : AwaitSlowly(context, word, target, peer);
  }

  // Says that this rank is through with the call, whatever becomes of it later.
  void Complete(const Call& call);

  // Ok where no rank has reported a failure so far; else that. Does not wait.
  Status CheckNobodyHasFailed(const CallContext& context) const;

  // In the middle of a call that does not wait: whether this rank has failed, or another reported
  // that it did, `peer`, which waits for this one, is gone, or the deadline has passed.
  Status CheckGoesOn(const CallContext& context, int peer) const;

  // Communicator::CheckHealth.
  Status CheckHealth();

  // Makes this rank fail with `error`, unless it has failed before, and tells the others.
  void Fail(const Error& error) noexcept;

  // Communicator::Abort. Whoever gives up says why before it does what others notice, so a report
  // that is there tells more than `reason`.
  void Abort(const Error& reason) noexcept;

 private:
  Status AwaitSlowly(const CallContext& context,
                     const std::atomic<uint32_t>& word,
                     uint32_t target,
                     int peer);
  // The part of a wait without sleep. Returns whether the word has arrived.
  bool SpinFor(const std::atomic<uint32_t>& word, uint32_t target);
  // Its last part: gives the core away. Returns as SpinFor.
  bool YieldFor(const std::atomic<uint32_t>& word, uint32_t target);
  // Everything that can make waiting for `word` pointless; ok when none of it holds.
  Status FindTrouble(const CallContext& context,
                     const std::atomic<uint32_t>& word,
                     uint32_t target,
                     int peer) const;
  Status FindMismatch(const CallContext& context, int peer) const;
  Error LostPeer(const CallContext& context, int peer) const;
  // "rank R".
  std::string NameOfRank(int rank) const;
  void ReportFailure(const Error& error) noexcept;
  // The error of another rank, "rank R reported: ...".
  std::optional<Error> ReportedFailure() const;
  void WakeEveryone() noexcept;

  static bool HasReached(const std::atomic<uint32_t>& word, uint32_t target) {
    return static_cast<int32_t>(word.load(std::memory_order_acquire) - target) >= 0;
  }

  const int rank_;
  const int world_size_;
  const SharedMemoryLayout layout_;
  const std::vector<UniqueFd> links_;
  const std::vector<int> names_;
  const bool has_core_each_;
  FailureLatch failure_;
  TimePoint looked_at_;  // for trouble; of the calling thread
  WaitHabit spin_{2};    // two: one late peer is no pattern
  WaitHabit yield_{1};   // one: a loss is a whole time slice
};

}  // namespace lockstep::runtime
