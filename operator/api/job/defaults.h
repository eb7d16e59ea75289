#pragma once

#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Fills in what depends on other fields and was left open. So far that is `processes` where it is
// 0: one for the built-in trainer, which drives all its GPUs itself; for commands one per GPU, and
// one without GPUs. All other defaults are the structs' own. Doing it twice changes nothing.
void Default(TrainingJob* job);

}  // namespace lockstep::control
