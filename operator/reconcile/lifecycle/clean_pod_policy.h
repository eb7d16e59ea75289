#pragma once

#include <chrono>
#include <optional>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// When one rank's success has decided the job, the others are at their own last lines: they get
// this long to end by themselves. Choice: longer than writing a last line takes, shorter than a
// person waits. An evaluator, which judges the last checkpoint then, gets what runPolicy says.
inline constexpr std::chrono::seconds kFinishGrace{5};

// What becomes of the pods of a job that has ended: as it says; but a limit of time ends what runs,
// whatever it says. Others count on the room from then on.
CleanPodPolicy CleanPodPolicyOf(const TrainingJobSpec& spec, const TrainingJobStatus& status);

// Whether a pod of a job that has ended goes: All: every pod; Running: those in which something
// still runs, be it somebody else's container; None: none.
bool IsCleaned(CleanPodPolicy policy, const kube::Pod& pod);

// Until when a member may still finish by itself; null when there is nothing to wait for.
std::optional<WallTime> MayFinishUntil(const RunPolicy& policy,
                                       const TrainingJobStatus& status,
                                       const Member& member,
                                       WallTime now);

}  // namespace lockstep::control
