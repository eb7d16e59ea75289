#pragma once

#include <cstdint>
#include <map>

#include "trainer-runtime/strategy/parameter_server/shard_content.h"

namespace lockstep::runtime {

// How far all workers together are with a data epoch.
enum class EpochStanding {
  kUnderWay,  // or not begun
  kOver,      // all of its samples are used
  kForgotten  // it is over, and so many have begun since that its sums are kept no more
};

// By a shard's `sums` of all pushes. `sample_count`: of the data epoch, that all pushes together
// use. Pure.
inline EpochStanding StandingOf(int64_t data_epoch,
                                int64_t sample_count,
                                const std::map<int64_t, StepSums>& sums) {
  const auto found = sums.find(data_epoch);
  if (found != sums.end()) {
    return found->second.sample_count < sample_count ? EpochStanding::kUnderWay
                                                     : EpochStanding::kOver;
  }
  const bool is_older = !sums.empty() && data_epoch < sums.begin()->first;
  return is_older ? EpochStanding::kForgotten : EpochStanding::kUnderWay;
}

}  // namespace lockstep::runtime
