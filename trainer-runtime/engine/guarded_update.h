#pragma once

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/engine/guarded_step.h"

namespace lockstep::runtime {

// What the device is told of a step: of its update where the options have one, else of the scales
// alone.
GuardedStep MakeGuardedStep(const TrainingSpec& spec, const StepOptions& options);

// What the host is told of it. Preconditions: the device has done the step; `has_update` as the
// step's options.
StepResult ResultOf(const GuardedStep& step, const StepNumbers& numbers, bool has_update);

// For engines in the host's memory, which take no guarded updates, and whose steps are over when
// their call returns. Errors: kUnavailable.
Status RefuseDevicesOptions(const StepOptions& options);

}  // namespace lockstep::runtime
