#include "trainer-runtime/capi/progress_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

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

}  // namespace

ApiOutcome Report(LibrarySession& session, const lockstep_progress& progress) {
  if (progress.phase != LOCKSTEP_PHASE_KEEP && !PhaseOf(progress.phase).has_value()) {
    return InvalidArgument("phase: there is no " + std::to_string(progress.phase));
  }
  const auto change = [&](StatusDocument& document) { ShowProgress(progress, &document); };
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
