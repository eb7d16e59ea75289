#include "trainer-runtime/data/label_check.h"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::runtime {
namespace {

// The largest label that a loss can read, and what it expects in words.
struct Bound {
  int64_t max = 0;
  std::string expected;
};

// Null where the loss reads any byte, or another number of labels, of which it tells itself.
std::optional<Bound> BoundOf(LossType loss, int64_t label_width, int64_t outputs) {
  if (ReadsClassNumbers(loss, label_width, outputs)) {
    return Bound{outputs - 1,
                 "a class from 0 to " + std::to_string(outputs - 1) + " for the model's " +
                     std::to_string(outputs) + " outputs"};
  }
  if (loss == LossType::kBinaryCrossentropy && label_width == outputs) {
    return Bound{1, "a number from 0 to 1: BinaryCrossentropy reads probabilities"};
  }
  return std::nullopt;
}

// `first` is the number that the set's first sample has in `file`.
Status CheckBound(const Dataset& set, const Bound& bound, const std::string& file, int64_t first) {
  const auto found = set.FirstLabelAbove(bound.max);
  if (!found) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               file + ": the label of sample " + std::to_string(first + found->sample) + " is " +
                   std::to_string(found->value) + ", expected " + bound.expected);
}

}  // namespace

Status CheckLabels(const TrainingSpec& spec, const DatasetSplits& splits) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto shapes, InferShapes(spec.model));
  const int64_t outputs = shapes.empty() ? 0 : shapes.back().output.back();
  const auto bound = BoundOf(spec.loss.type, splits.train.label_width(), outputs);
  if (!bound) {
    return OkStatus();
  }
  const DatasetSpec& files = spec.dataset;
  LOCKSTEP_RETURN_IF_ERROR(CheckBound(splits.train, *bound, files.train.labels, 0));
  return files.test
             ? CheckBound(splits.test, *bound, files.test->labels, 0)
             : CheckBound(splits.test, *bound, files.train.labels, splits.train.sample_count());
}

}  // namespace lockstep::runtime
