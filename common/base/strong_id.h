#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

// A number that only compares with its own kind. Tag is an empty struct naming the kind.
template <typename Tag>
class StrongId {
 public:
  constexpr StrongId() = default;

  constexpr explicit StrongId(int64_t value) : value_(value) {}

  constexpr int64_t value() const { return value_; }

  // The id that follows this one.
  constexpr StrongId Next() const { return StrongId(value_ + 1); }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  int64_t value_ = 0;
};

// One meeting of all ranks; grows with every rendezvous of a job. Older epochs are refused.
using Epoch = StrongId<struct EpochTag>;

// One start of the whole gang; grows when all pods are created anew.
using Attempt = StrongId<struct AttemptTag>;

// The n-th pod that stands for one rank within an attempt; grows when the pod is replaced.
using Incarnation = StrongId<struct IncarnationTag>;

// One optimizer update; step 0 is the initial state, step n the state after n updates.
using Step = StrongId<struct StepTag>;

}  // namespace lockstep
