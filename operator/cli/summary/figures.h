#pragma once

#include <optional>
#include <string>

#include "operator/cli/run_folder/model_records.h"

namespace lockstep::control {

// Figures of a training as people read them. Pure.

// "0.1290" in 4 digits behind the point.
std::string Fixed(double value, int digits);

// "96.1 %, loss 0.1290"; empty where training was not tested.
std::string FormatTest(const std::optional<double>& accuracy, const std::optional<double>& loss);

// "12 of 15 steps; training loss 0.2500; test 96.1 %, loss 0.1290". What is not known is said to be
// that: of a job that has failed each model's process told what it still could.
std::string FormatModel(const ModelRecord& model);

}  // namespace lockstep::control
