#include "trainer-runtime/engine/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace lockstep::runtime {
namespace {

using Row = std::span<const double>;

// One sample: its loss is returned, d(loss)/d(output) goes to `gradient` [output width].
using SampleLoss = double (*)(Row outputs, Row labels, std::span<double> gradient);

double ClipProbability(double p) {
  return std::clamp(p, kProbabilityEpsilon, 1 - kProbabilityEpsilon);
}

bool IsClipped(double p) {
  return p < kProbabilityEpsilon || p > 1 - kProbabilityEpsilon;
}

double SquaredError(Row outputs, Row labels, std::span<double> gradient) {
  const auto width = static_cast<double>(outputs.size());
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double difference = outputs[i] - labels[i];
    sum += difference * difference;
    gradient[i] = 2 * difference / width;
  }
  return sum / width;
}

double BinaryFromLogits(Row outputs, Row labels, std::span<double> gradient) {
  const auto width = static_cast<double>(outputs.size());
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double x = outputs[i];
    // -z log s(x) - (1 - z) log(1 - s(x)), written so that no exponent overflows.
    sum += std::max(x, 0.0) - x * labels[i] + std::log1p(std::exp(-std::abs(x)));
    gradient[i] = (1 / (1 + std::exp(-x)) - labels[i]) / width;
  }
  return sum / width;
}

double BinaryFromProbabilities(Row outputs, Row labels, std::span<double> gradient) {
  const auto width = static_cast<double>(outputs.size());
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double p = ClipProbability(outputs[i]);
    sum -= labels[i] * std::log(p) + (1 - labels[i]) * std::log1p(-p);
    gradient[i] = IsClipped(outputs[i]) ? 0 : (p - labels[i]) / (p * (1 - p)) / width;
  }
  return sum / width;
}

double CategoricalFromLogits(Row outputs, Row labels, std::span<double> gradient) {
  const double largest = *std::max_element(outputs.begin(), outputs.end());
  double exponentials = 0;
  double label_sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    gradient[i] = std::exp(outputs[i] - largest);
    exponentials += gradient[i];
    label_sum += labels[i];
  }
  const double log_sum = largest + std::log(exponentials);
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    sum += labels[i] * (log_sum - outputs[i]);
    gradient[i] = label_sum * gradient[i] / exponentials - labels[i];
  }
  return sum;
}

// Outputs need not add up to 1: they are divided by their sum first, as Keras does.
double CategoricalFromProbabilities(Row outputs, Row labels, std::span<double> gradient) {
  double total = 0;
  for (const double output : outputs) {
    total += output;
  }
  double sum = 0;
  double weighted = 0;  // sum over i of outputs[i] x d(loss)/d(outputs[i] / total)
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double p = outputs[i] / total;
    const double clipped = ClipProbability(p);
    sum -= labels[i] * std::log(clipped);
    gradient[i] = IsClipped(p) ? 0 : -labels[i] / clipped;
    weighted += p * gradient[i];
  }
  for (double& value : gradient) {
    value = (value - weighted) / total;
  }
  return sum;
}

SampleLoss Choose(const LossSpec& loss) {
  switch (loss.type) {
    case LossType::kMeanSquaredError:
      return SquaredError;
    case LossType::kBinaryCrossentropy:
      return loss.from_logits ? BinaryFromLogits : BinaryFromProbabilities;
    case LossType::kCategoricalCrossentropy:
    case LossType::kSparseCategoricalCrossentropy:
      break;
  }
  return loss.from_logits ? CategoricalFromLogits : CategoricalFromProbabilities;
}

std::size_t IndexOfLargest(Row values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

bool IsHit(const LossSpec& loss, Row outputs, Row labels) {
  if (outputs.size() > 1) {
    return IndexOfLargest(outputs) == IndexOfLargest(labels);
  }
  const bool is_logit = loss.type == LossType::kBinaryCrossentropy && loss.from_logits;
  const double threshold = is_logit ? 0 : 0.5;
  return labels[0] == (outputs[0] > threshold ? 1 : 0);
}

Status CheckShapes(const LossSpec& loss, const Predictions& predictions, int64_t label_width) {
  const bool is_sparse = loss.type == LossType::kSparseCategoricalCrossentropy;
  const int64_t expected = is_sparse ? 1 : predictions.output_width;
  const auto label_count = static_cast<int64_t>(predictions.labels.size());
  const bool is_whole = label_width * predictions.sample_count == label_count;
  if (is_whole && (label_width == expected ||
                   ReadsClassNumbers(loss.type, label_width, predictions.output_width))) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               "the loss over " + std::to_string(predictions.output_width) + " outputs needs " +
                   std::to_string(expected) + " label values for each sample, got " +
                   std::to_string(label_count) + " label values for " +
                   std::to_string(predictions.sample_count) + " samples");
}

// "7", "0.5": no digits that say nothing.
std::string Plain(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", number);
  return text;
}

// Writes the sample's labels as one number per output.
Status SpreadLabels(std::span<const float> labels, int64_t sample, std::span<double> target) {
  const auto class_number = static_cast<double>(labels[0]);
  const auto class_count = static_cast<double>(target.size());
  if (class_number != std::floor(class_number) || class_number < 0 || class_number >= class_count) {
    return Error(ErrorCode::kInvalidArgument,
                 "label of sample " + std::to_string(sample) + " of the batch is " +
                     Plain(class_number) + ", expected a class from 0 to " +
                     std::to_string(target.size() - 1));
  }
  std::fill(target.begin(), target.end(), 0.0);
  target[static_cast<std::size_t>(class_number)] = 1;
  return OkStatus();
}

// Beyond 0 and 1 the loss has no lower bound, and training runs away along it.
Status CheckProbabilities(std::span<const float> labels, int64_t sample) {
  for (const float label : labels) {
    if (!(label >= 0 && label <= 1)) {
      return Error(ErrorCode::kInvalidArgument,
                   "label of sample " + std::to_string(sample) + " of the batch is " +
                       Plain(label) +
                       ", expected a number from 0 to 1: BinaryCrossentropy reads probabilities");
    }
  }
  return OkStatus();
}

// The sample's labels, one number per output.
Status ReadLabels(const LossSpec& loss,
                  std::span<const float> labels,
                  int64_t sample,
                  std::span<double> target) {
  if (ReadsClassNumbers(
          loss.type, static_cast<int64_t>(labels.size()), static_cast<int64_t>(target.size()))) {
    return SpreadLabels(labels, sample, target);
  }
  std::copy(labels.begin(), labels.end(), target.begin());
  return loss.type == LossType::kBinaryCrossentropy ? CheckProbabilities(labels, sample)
                                                    : OkStatus();
}

}  // namespace

Result<StepResult> ComputeLoss(const LossSpec& loss,
                               const Predictions& predictions,
                               double gradient_scale,
                               std::span<float> output_gradients) {
  StepResult result;
  if (predictions.sample_count == 0) {
    return result;
  }
  const int64_t label_width =
      static_cast<int64_t>(predictions.labels.size()) / predictions.sample_count;
  LOCKSTEP_RETURN_IF_ERROR(CheckShapes(loss, predictions, label_width));
  const SampleLoss sample_loss = Choose(loss);
  const auto width = static_cast<std::size_t>(predictions.output_width);
  // Double inside a sample: the loss of a batch is then exact to the last digit that is printed,
  // and costs nothing beside the network.
  std::vector<double> outputs(width);
  std::vector<double> labels(width);
  std::vector<double> gradient(width);
  for (int64_t sample = 0; sample < predictions.sample_count; ++sample) {
    const std::size_t begin = static_cast<std::size_t>(sample) * width;
    const auto row = predictions.outputs.subspan(begin, width);
    std::copy(row.begin(), row.end(), outputs.begin());
    const auto label_row = predictions.labels.subspan(
        static_cast<std::size_t>(sample * label_width), static_cast<std::size_t>(label_width));
    LOCKSTEP_RETURN_IF_ERROR(ReadLabels(loss, label_row, sample, labels));
    result.loss_sum += sample_loss(outputs, labels, gradient);
    result.correct_count += IsHit(loss, outputs, labels) ? 1 : 0;
    for (std::size_t i = 0; i < width && !output_gradients.empty(); ++i) {
      output_gradients[begin + i] = static_cast<float>(gradient_scale * gradient[i]);
    }
  }
  return result;
}

Status CheckLabels(const LossSpec& loss,
                   std::span<const float> labels,
                   int64_t sample_count,
                   int64_t output_width) {
  if (sample_count == 0) {
    return OkStatus();
  }
  const int64_t label_width = static_cast<int64_t>(labels.size()) / sample_count;
  LOCKSTEP_RETURN_IF_ERROR(CheckShapes(
      loss,
      {.outputs = {}, .labels = labels, .sample_count = sample_count, .output_width = output_width},
      label_width));
  const auto width = static_cast<std::size_t>(label_width);
  std::vector<double> row(static_cast<std::size_t>(output_width));
  for (int64_t sample = 0; sample < sample_count; ++sample) {
    LOCKSTEP_RETURN_IF_ERROR(ReadLabels(
        loss, labels.subspan(static_cast<std::size_t>(sample) * width, width), sample, row));
  }
  return OkStatus();
}

std::optional<LossSpec> AbsorbActivation(const LossSpec& loss, Activation last) {
  if (last == Activation::kLinear) {
    return loss;
  }
  const bool is_categorical = loss.type == LossType::kCategoricalCrossentropy ||
                              loss.type == LossType::kSparseCategoricalCrossentropy;
  const bool matches =
      (last == Activation::kSigmoid && loss.type == LossType::kBinaryCrossentropy) ||
      (last == Activation::kSoftmax && is_categorical);
  if (!matches || loss.from_logits) {
    return std::nullopt;
  }
  return LossSpec{.type = loss.type, .from_logits = true};
}

}  // namespace lockstep::runtime
