#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// A pod as the operator would create it for the first attempt.
struct RenderedPod {
  TaskId task;
  kube::Pod pod;
  std::vector<EnvironmentSource> sources;  // of variables that only a cluster knows
};

// All pods of the job, ranks first. Errors: as BuildPod.
Result<std::vector<RenderedPod>> RenderPods(const TrainingJob& job, const PodSettings& settings);

// {"pods": [{"name", "role", "index", "command", "env": {...}}]}
Json EncodePods(const std::vector<RenderedPod>& pods);

// The same for people.
std::string FormatPods(const std::vector<RenderedPod>& pods);

}  // namespace lockstep::control
