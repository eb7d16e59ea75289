#pragma once

#include <chrono>

#include "common/contract/environment/role.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Why pods that still run are asked to end.
enum class Farewell {
  kRequest,   // the job was suspended or changed, or is out of time: what they hold may be saved
  kRollback,  // not all of their gang could start: there is nothing to save
  kLoss,      // their gang has lost one of its pods
  kSuccess,   // the job is done without them
};

// Why the pods of an older attempt, or of a job that has ended, are asked to end.
Farewell FarewellOf(const TrainingJobStatus& status);

// The time from SIGTERM to SIGKILL of a pod whose own grace is `grace`; never more than that. After
// a loss a command's processes wait for a peer that will not answer, and frameworks that swallow
// SIGTERM do so to the last second; parameter servers and their workers never end by themselves.
// The built-in trainer ends as soon as it can, and an evaluator may be testing the last checkpoint.
std::chrono::seconds GraceFor(Farewell farewell,
                              Role role,
                              bool is_training,
                              std::chrono::seconds grace);

// The same for a pod of the job; none for one that has stopped answering: it will not hear SIGTERM.
std::chrono::seconds GraceOf(const kube::Pod& pod,
                             const TrainingJobStatus& status,
                             const Observed& observed,
                             bool is_training);

}  // namespace lockstep::control
