#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// What of `spec.recovery` contradicts itself or the rest of the job, with each field's path.
std::vector<Error> RecoveryErrors(const TrainingJobSpec& spec);

// Why no gang of this job can start anew within its pods, whatever `recovery.relaunch` says: all
// the reasons, in the words of a refusal; empty: it can. All its ranks have to run a command of
// their own under our runtime, whose policy forgives some end. Not where they meet at Horovod's
// rendezvous, which knows one start only, and not beside parameter servers, whom nobody asks how
// they are.
std::vector<std::string> WhyNoRelaunch(const TrainingJobSpec& spec);

// Whether a gang of this job may start anew within its pods: it asks for that, and can.
bool MayRelaunch(const TrainingJobSpec& spec);

// Whether the pods of the role wait for a relaunch when their programs have ended.
bool HoldsItsEnd(const TrainingJobSpec& spec, Role role);

}  // namespace lockstep::control
