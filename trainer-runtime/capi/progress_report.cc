#include "trainer-runtime/capi/progress_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::runtime {
namespace {

std::optional<Phase> PhaseOf(int32_t phase) {
  switch (phase) {
    case LOCKSTEP_PHASE_RESTORING:
      return Phase::kRestoring;
    case LOCKSTEP_PHASE_TRAINING:
      return Phase::kTraining;
    case LOCKSTEP_PHASE_CHECKPOINTING:
      return Phase::kCheckpointing;
    case LOCKSTEP_PHASE_EVALUATING:
      return Phase::kEvaluating;
    case LOCKSTEP_PHASE_STOPPING:
      return Phase::kStopping;
    default:
      return std::nullopt;
  }
}

std::optional<double> Known(double figure) {
  return std::isfinite(figure) ? std::optional(figure) : std::nullopt;
}

void ShowProgress(const lockstep_progress& progress, StatusDocument* document) {
  document->step = progress.step >= 0 ? Step(progress.step) : document->step;
  if (progress.steps_total >= 0) {
    document->steps_total = progress.steps_total;
  }
  document->data_epoch = progress.data_epoch >= 0 ? progress.data_epoch : document->data_epoch;
  document->loss = Known(progress.loss);
  document->accuracy = progress.accuracy >= 0 ? Known(progress.accuracy) : std::nullopt;
  if (progress.samples_per_second >= 0) {
    document->samples_per_second = Known(progress.samples_per_second).value_or(0);
  }
  document->phase = PhaseOf(progress.phase).value_or(document->phase);
}

// The one count that says nothing; what else is below 0 is a fault of the program.
constexpr int64_t kUnknownCount = -1;

// A mean of ones may be rounded up a little.
constexpr double kAccuracyMax = 1 + 1e-6;

ApiOutcome CheckCounts(const lockstep_progress& progress) {
  const std::pair<const char*, int64_t> counts[] = {{"step", progress.step},
                                                    {"steps_total", progress.steps_total},
                                                    {"data_epoch", progress.data_epoch},
                                                    {"sample_count", progress.sample_count}};
  for (const auto& [name, count] : counts) {
    if (count < kUnknownCount) {
      return InvalidArgument(std::string(name) + ": " + std::to_string(count) +
                             " found, expected 0 or more, or -1 if unknown");
    }
  }
  return {};
}

// -1 of these has always said nothing, as NaN does.
bool IsKnownOrNothing(double figure, double max) {
  return std::isnan(figure) || figure == -1 || (figure >= 0 && figure <= max);
}

// A loss may be any number, one that has diverged too.
ApiOutcome CheckFigures(const lockstep_progress& progress) {
  constexpr double kFinite = std::numeric_limits<double>::max();
  const auto refuse = [](const char* name, double figure, const char* expected) {
    return InvalidArgument(std::string(name) + ": " + std::to_string(figure) + " found, expected " +
                           expected + ", or -1 or NaN if unknown");
  };
  if (!IsKnownOrNothing(progress.accuracy, kAccuracyMax)) {
    return refuse("accuracy", progress.accuracy, "a number from 0 to 1");
  }
  if (!IsKnownOrNothing(progress.samples_per_second, kFinite)) {
    return refuse(
        "samples_per_second", progress.samples_per_second, "a finite number of at least 0");
  }
  return {};
}

}  // namespace

ApiOutcome Report(LibrarySession& session, const lockstep_progress& progress) {
  if (ApiOutcome counts = CheckCounts(progress); !counts.ok()) {
    return counts;
  }
  if (ApiOutcome figures = CheckFigures(progress); !figures.ok()) {
    return figures;
  }
  const Step newest = session.report().newest_step();
  if (progress.step >= 0 && Step(progress.step) < newest) {
    return InvalidArgument("step: " + std::to_string(progress.step) + " found, expected " +
                           std::to_string(newest.value()) +
                           " or more, the highest step reported since the last rendezvous");
  }
  if (progress.phase != LOCKSTEP_PHASE_KEEP && !PhaseOf(progress.phase).has_value()) {
    return InvalidArgument("phase: unknown phase " + std::to_string(progress.phase));
  }
  const auto change = [&](StatusDocument& document) { ShowProgress(progress, &document); };
  if (progress.phase == LOCKSTEP_PHASE_RESTORING) {
    session.report().Begins(change);
    return {};
  }
  CompletedStep step;
  step.step = Step(std::max<int64_t>(progress.step, 0));
  step.data_epoch = std::max<int64_t>(progress.data_epoch, 0);
  step.own_sample_count = std::max<int64_t>(progress.sample_count, 0);
  step.loss = progress.loss;
  step.accuracy = progress.accuracy >= 0 ? Known(progress.accuracy) : std::nullopt;
  session.report().Progressed(step, change);
  return {};
}

}  // namespace lockstep::runtime
