#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/contract/training_spec.h"

namespace lockstep::control {

// What can be seen to be wrong with a training's data before anything is started, by the first
// bytes of its files: one that is missing, closed to this user, or no IDX file of unsigned bytes,
// samples that do not fit the model, another number of labels than of inputs, nothing left to train
// on. Relative paths start at `folder`. Each error has its field, the path, what was found and what
// was expected; empty: nothing is wrong that can be seen. What lies behind the headers is the
// trainer's.
std::vector<Error> CheckDataFiles(const TrainingSpec& spec, const std::string& folder);

}  // namespace lockstep::control
