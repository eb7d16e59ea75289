#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"

namespace lockstep::control {

struct FoundCheckpoint {
  Step step;
  std::string folder;           // its own
  std::optional<int64_t> rank;  // whose model it is, where each rank's has a folder of its own
};

// The newest checkpoint in `folder`, and of every rank whose model has a folder of its own the
// newest of that, whole or not: a step's folder is complete when it appears, so that what is not
// has been harmed since. One with nothing in it, or a file of such a name, is none. The folder
// knows more than the reports of those who write there: one that is killed cannot tell what it
// wrote last. Errors: those of reading a folder that is there, with its path; it may hold
// checkpoints.
Result<std::vector<FoundCheckpoint>> NewestCheckpointsIn(const std::string& folder);

// Whether `folder` is there and holds nothing that anybody has trained: it is empty but for the
// fence of those who wrote there. Of one that cannot be read it is not known: false.
bool HoldsNoWork(const std::string& folder);

// The furthest and the least far of them; nothing where there is none.
std::optional<Step> HighestOf(const std::vector<FoundCheckpoint>& newest);
std::optional<Step> LowestOf(const std::vector<FoundCheckpoint>& newest);

// "step 20"; of several models that are not equally far "steps 672 to 1031".
std::string StepsBetween(Step lowest, Step highest);

// ", none of model 0": which of `model_count` models have no checkpoint while others do.
std::string ModelsWithout(const std::vector<FoundCheckpoint>& newest, std::size_t model_count);

}  // namespace lockstep::control
