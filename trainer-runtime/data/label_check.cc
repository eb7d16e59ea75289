#include "trainer-runtime/data/label_check.h"

#include <string>

namespace lockstep::runtime {
namespace {

// `first` is the number that the set's first sample has in `file`.
Status CheckClasses(const Dataset& set, int64_t classes, const std::string& file, int64_t first) {
  const auto found = set.FirstLabelAbove(classes - 1);
  if (!found) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               file + ": the label of sample " + std::to_string(first + found->sample) + " is " +
                   std::to_string(found->value) + ", expected a class from 0 to " +
                   std::to_string(classes - 1) + " for the model's " + std::to_string(classes) +
                   " outputs");
}

}  // namespace

Status CheckLabels(const TrainingSpec& spec, const DatasetSplits& splits) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto shapes, InferShapes(spec.model));
  const int64_t outputs = shapes.empty() ? 0 : shapes.back().output.back();
  if (!ReadsClassNumbers(spec.loss.type, splits.train.label_width(), outputs)) {
    return OkStatus();
  }
  const DatasetSpec& files = spec.dataset;
  LOCKSTEP_RETURN_IF_ERROR(CheckClasses(splits.train, outputs, files.train.labels, 0));
  return files.test
             ? CheckClasses(splits.test, outputs, files.test->labels, 0)
             : CheckClasses(splits.test, outputs, files.train.labels, splits.train.sample_count());
}

}  // namespace lockstep::runtime
