#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/contract/training/training_spec.h"

namespace lockstep::control {

// What can be seen to be wrong with a training's data before anything is started, by the first
// bytes of its files and by their sizes: one that is missing, closed to this user, or no IDX file
// of unsigned bytes, or not whole; samples that do not fit the model, labels that do not fit its
// outputs and loss, another number of labels than of inputs, nothing left to train on, or nothing
// for one of `world_size` ranks with a model each. Relative paths start at `folder`. Each error has
// its field, the path, what was found and what was expected; empty: nothing is wrong that can be
// seen. What the values are is the trainer's affair.
std::vector<Error> CheckDataFiles(const TrainingSpec& spec,
                                  const std::string& folder,
                                  int64_t world_size);

}  // namespace lockstep::control
