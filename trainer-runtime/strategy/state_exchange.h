#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/strategy/rank_control.h"

namespace lockstep::runtime {

// The values of one tensor of a state.
using StateValues = std::span<float>;

// What a rank has, as far as it can tell by itself; of the source it is not asked.
enum class HeldValues {
  kNone,      // of no use, so that they may be written over at any time
  kOthers,    // a state, but another than the source's
  kMaybeSame  // a state that may be the source's: digests tell
};

// Brings the values of one rank to the others of a meeting: only to those that have not got them,
// tensor by tensor, and straight to their place. No room is needed for them on any rank.
//
//   can read where the source has them   Compare copies, and makes the digests on the way
//   cannot                               Fill sends
//
// All ranks call Compare, then Fill, with as many tensors of the same sizes.
// Errors of both: those of Communicator. Thread: the training thread.
class StateExchange {
 public:
  // `control` must outlive this object.
  StateExchange(RankControl* control, int source, Deadline deadline)
      : control_(control), source_(source), deadline_(deadline) {}

  // Finds out which of `tensors` this rank has as the source has them, by their digests. Those of
  // kOthers are not read. To a rank that has kNone and can read the source's memory they come
  // already here: then its digests are those of the source, which reads nothing itself.
  Status Compare(std::span<const StateValues> tensors, HeldValues held);

  // Whether this rank has a tensor as the source has it. Precondition: Compare.
  bool Holds(std::size_t tensor) const { return holds_[tensor]; }

  // Whether this rank has all as the source has them. Precondition: Compare.
  bool HoldsAll() const;

  // Ranks that had all before this exchange, with the source. Precondition: Compare.
  int64_t holder_count() const { return holder_count_; }

  // Whether some of the values may have been written over, but not yet all: after an error, that
  // they may be a mixture.
  bool has_begun() const { return has_begun_; }

  // Puts the source's values into those of `tensors` that have others. Where it fails, they may be
  // the source's in part. Precondition: Compare, with equal values.
  Status Fill(std::span<const StateValues> tensors);

 private:
  using Digests = std::vector<uint64_t>;  // by tensor

  bool CanRead(std::span<const StateValues> tensors) const;
  Result<Digests> Read(std::span<const StateValues> tensors);
  Status CompareDigests(const Digests& mine, int teller, HeldValues held);

  RankControl* const control_;
  const int source_;
  const Deadline deadline_;
  std::vector<bool> holds_;  // by tensor
  int64_t holder_count_ = 0;
  bool has_begun_ = false;
};

}  // namespace lockstep::runtime
