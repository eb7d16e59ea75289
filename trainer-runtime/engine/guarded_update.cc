#include "trainer-runtime/engine/guarded_update.h"

#include <limits>
#include <variant>

#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {
namespace {

void Put(const SgdFactors& factors, GuardedStep* step) {
  step->sgd = factors;
}

void Put(const MomentumFactors& factors, GuardedStep* step) {
  step->momentum = factors;
}

void Put(const AdamFactors& factors, GuardedStep* step) {
  step->adam = factors;
}

}  // namespace

GuardedStep MakeGuardedStep(const TrainingSpec& spec, const StepOptions& options) {
  GuardedStep step;
  step.seed_factor = options.gradient_scale * options.loss_scale;
  step.inverse_scale = 1 / options.loss_scale;
  step.norm_max = std::numeric_limits<double>::infinity();
  if (options.update.has_value()) {
    step.norm_max = options.update->norm_max.value_or(step.norm_max);
    step.skips_overflow = spec.precision == Precision::kFloat16 ? 1 : 0;
    step.needs_finite = options.update->needs_finite ? 1 : 0;
    std::visit([&](const auto& factors) { Put(factors, &step); },
               MakeUpdateFactors(spec.optimizer, options.update->number));
  }
  return step;
}

StepResult ResultOf(const GuardedStep& step, const StepNumbers& numbers, bool has_update) {
  StepResult result{.loss_sum = numbers.loss_sum,
                    .correct_count = static_cast<int64_t>(numbers.correct_count),
                    .overflow_count = static_cast<int64_t>(numbers.overflow)};
  if (has_update) {
    result.overflow_count = step.skips_overflow != 0 && !IsNumber(numbers.length) ? 1 : 0;
    result.gradient_length = numbers.length * step.inverse_scale;
    result.is_updated = numbers.verdict.is_refused == 0;
  }
  return result;
}

Status RefuseDevicesOptions(const StepOptions& options) {
  if (!options.update.has_value() && options.is_awaited) {
    return OkStatus();
  }
  return Error(
      ErrorCode::kUnavailable,
      "the gradients are in host memory: wait for the step there, and update in a separate call");
}

}  // namespace lockstep::runtime
