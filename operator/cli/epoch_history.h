#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/training_result.h"

namespace lockstep::control {

// Data epochs that a run remembers, the newest ones. Choice: a summary of some 100 KiB.
inline constexpr std::size_t kEpochsRememberedMax = 1000;

// The data epochs of a run, from what its processes tell. Of one epoch that several tell, the one
// who saw the most samples is right: others joined in its midst. Thread: one.
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

// "data epoch 2 of 5: loss 0.3121, training accuracy 91.2 %, 1.7 s"; `epochs_total` where known.
std::string FormatDataEpoch(const DataEpochResult& result, std::optional<int64_t> epochs_total);

}  // namespace lockstep::control
