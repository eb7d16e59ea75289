#include <string>

#include "trainer-runtime/train/loss_scale.h"
#include "trainer-runtime/train/trainer.h"

// How a trainer keeps gradients within the range of Float16.

namespace lockstep::runtime {

double Trainer::LossScaleNow() const {
  const bool is_scaled = spec_.precision == Precision::kFloat16 && state_.loss_scale.has_value();
  return is_scaled ? static_cast<double>(state_.loss_scale->scale) : 1;
}

// A new state has none, and one from before the training was in Float16.
void Trainer::BeginLossScale() {
  if (spec_.precision == Precision::kFloat16 && !state_.loss_scale.has_value()) {
    state_.loss_scale = LossScale{};
  }
}

// Whether training goes on behind a step that cannot be applied; if not, trouble_ says why. The
// scale is a part of the state, so the answer is the same on every rank.
bool Trainer::MaySkip() {
  if (!IsAtFloor(*state_.loss_scale)) {
    return true;
  }
  if (spec_.terminate_on_nan) {
    trouble_ = "gradients of step " + std::to_string(state_.step.value() + 1) +
               " are not finite in Float16, even at loss scale 1. The model has diverged: try a "
               "smaller learning rate. Or it needs precision: BFloat16. To continue anyway, set "
               "terminateOnNaN: false";  // within what a job's status tells of a reason
    return false;
  }
  if (!has_told_of_floor_) {
    has_told_of_floor_ = true;  // once: it may be so at every step
    parts_.logger->Warn(
        "steps are skipped because gradients are not finite even at the smallest loss scale; the "
        "status counts them",
        {{"step", state_.step.value() + 1}});
  }
  return true;
}

// A line for each halving: they are rare, or sixteen in a row.
void Trainer::MoveLossScale(bool is_skipped) {
  if (spec_.precision != Precision::kFloat16) {
    return;
  }
  const LossScale before = *state_.loss_scale;
  state_.loss_scale = is_skipped ? AfterSkippedStep(before) : AfterGoodStep(before);
  if (is_skipped && state_.loss_scale->scale != before.scale) {
    parts_.logger->Info("step skipped, because its gradients are not finite in Float16",
                        {{"step", state_.step.value() + 1},
                         {"loss_scale", state_.loss_scale->scale},
                         {"steps_skipped", state_.loss_scale->steps_skipped}});
  }
}

}  // namespace lockstep::runtime
