#pragma once

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/data/dataset.h"

namespace lockstep::runtime {

// Whether the labels of `splits`, as LoadDataset has read them, can be read by the loss of `spec`:
// before the first step, for one of the test samples would be met after the last.
// Errors: kInvalidArgument, with the file and the sample's number there, of the first class number
// that the model has no output for, or, with BinaryCrossentropy, label above 1.
Status CheckLabels(const TrainingSpec& spec, const DatasetSplits& splits);

}  // namespace lockstep::runtime
