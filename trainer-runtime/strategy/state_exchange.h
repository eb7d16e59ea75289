#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/strategy/rank_control.h"

namespace lockstep::runtime {

// The values of one tensor of a state.
using StateValues = std::span<float>;

// Brings the values of one rank to the others of a meeting: only to those that have not got them,
// tensor by tensor, and straight to their place. No room is needed for them on any rank.
//
// All ranks call Compare, then Fill, with as many tensors of the same sizes.
// Errors of both: those of Communicator. Thread: the training thread.
class StateExchange {
 public:
  // `control` must outlive this object.
  StateExchange(RankControl* control, int source, Deadline deadline)
      : control_(control), source_(source), deadline_(deadline) {}

  // Finds out which of `tensors` this rank has as the source has them, by their digests. Where not
  // even `may_be_equal`, none, and they are not read; of the source it is not asked.
  Status Compare(std::span<const StateValues> tensors, bool may_be_equal);

  // Whether this rank has a tensor as the source has it. Precondition: Compare.
  bool Holds(std::size_t tensor) const { return holds_[tensor]; }

  // Whether this rank has all as the source has them. Precondition: Compare.
  bool HoldsAll() const;

  // Ranks that have all, with the source. Precondition: Compare.
  int64_t holder_count() const { return holder_count_; }

  // Puts the source's values into those of `tensors` that have others. Where it fails, they may be
  // the source's in part. Precondition: Compare, with equal values.
  Status Fill(std::span<const StateValues> tensors);

 private:
  Status CompareDigests(std::span<const StateValues> tensors, bool may_be_equal);

  RankControl* const control_;
  const int source_;
  const Deadline deadline_;
  std::vector<bool> holds_;  // by tensor
  int64_t holder_count_ = 0;
};

}  // namespace lockstep::runtime
