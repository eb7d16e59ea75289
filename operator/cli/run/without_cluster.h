#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// A variable of the environment in which `lockstep` was started; nullopt when it is not set.
using ShellVariable = std::function<std::optional<std::string>(const std::string& name)>;

// Gives variables whose values only a cluster has (a Secret's, a ConfigMap's) the values that they
// have in the shell; optional ones may stay unset.
// Errors: kInvalidArgument, with every variable that is missing.
Status TakeClusterValues(const ShellVariable& shell, TrainingJob* job);

// Why nobody here would ever start the job's pods, and what to do; empty if they start.
std::string WhyItWouldOnlyWait(const TrainingJob& job);

// The init containers, which nobody runs without a cluster: "fetch, agent"; empty if there are
// none.
std::string InitContainersOf(const TrainingJob& job);

// What pod templates ask for and one machine does not give: "volumes, livenessProbe of container
// trainer"; each once, empty if there is nothing.
std::string UnusedPodFieldsOf(const TrainingJob& job);

// Whose turn it is among the jobs of a cluster is no question here, nor are more nodes, nor is
// there a kube-scheduler: "queue, priorityClassName, provisioning, binding" of those that the job
// asks for; empty if it asks for none.
std::string UnusedSchedulingOf(const TrainingJob& job);

}  // namespace lockstep::control
