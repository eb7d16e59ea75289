#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/training/training_result.h"

namespace lockstep::control {

// Data epochs that a run remembers, the newest ones. Choice: a summary of some 100 KiB.
inline constexpr std::size_t kEpochsRememberedMax = 1000;

// The data epochs of a run, from what its processes tell. Of one epoch that several tell, the one
// who got farthest in it is right, and of those the one who was there for most of it: others joined
// in its midst and know the time of what was left. Thread: one.
class EpochHistory {
 public:
  void Add(const std::vector<DataEpochResult>& results);

  // Epochs that were not handed out before, oldest first: one that a process told late comes late.
  std::vector<DataEpochResult> TakeNew();

  // Oldest first.
  std::vector<DataEpochResult> All() const;

 private:
  struct Known {
    DataEpochResult result;
    bool was_taken = false;
  };

  std::map<int64_t, Known> by_epoch_;
};

// "data epoch 2 of 5: loss 0.3121, training accuracy 91.2 %, 1.7 s"; `epochs_total` where known. Of
// one that this run came to in its midst: "..., 0.6 s for the last 3000 of its 9000 samples"; of
// one that was over before: "..., untimed". Where steps were skipped: "...; the loss is over 8904
// of its 9000 samples, without skipped steps".
std::string FormatDataEpoch(const DataEpochResult& result, std::optional<int64_t> epochs_total);

}  // namespace lockstep::control
