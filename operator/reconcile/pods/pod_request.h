#pragma once

#include "operator/api/job/training_job.h"
#include "operator/reconcile/pods/pod.h"

namespace lockstep::control {

// The pod that `status` has decided for a task. A built-in ps is told who stands for each ps, once
// one has a successor; nobody else has to know it, as ps and workers tell each other. Precondition
// (checked): the task is placed.
PodRequest RequestPod(const TrainingJob& job, const TrainingJobStatus& status, const TaskId& task);

}  // namespace lockstep::control
