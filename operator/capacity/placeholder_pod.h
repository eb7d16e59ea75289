#pragma once

#include <cstdint>
#include <string>

#include "common/contract/environment/topology.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// A placeholder pod shows cluster autoscalers what one pod of a gang asks for that has no room. It
// stands for nothing: no scheduler serves it, so that nobody binds it, and it has none of the
// labels by which workers are found, neither ours nor the template's.

// The scheduler that it names, and that nobody runs.
inline constexpr const char* kPlaceholderScheduler = "placeholder.lockstep.dev";

// All placeholders of a namespace; of all namespaces where that is empty. By their scheduler, which
// nobody can edit: one whose label somebody takes off is still seen.
kube::Selection SelectPlaceholders(const std::string& namespace_name);

// "{name of the ask}-worker-0-placeholder". `number`: of the ask.
std::string PlaceholderName(const Metadata& job, int64_t number, const TaskId& task);

// Its spec but for the image: all that decides on which nodes a pod of the role may stand. Of a
// template with a RuntimeClass the overhead is left to admission, which adds it to every pod.
Json PlaceholderSpecOf(const TrainingJob& job, const RoleSpec& role);

// Of the ask that is open. Precondition: job.status.provisioning has one.
Json PlaceholderManifest(const TrainingJob& job,
                         const RoleSpec& role,
                         int index,
                         const PodSettings& settings);

// What a scheduler says of a pod that it finds no room for, as a merge patch of the pod's status:
// this is what autoscalers look at. `uid`: of the pod; another of its name is left alone.
Json PlaceholderPatch(const Metadata& job, const std::string& uid, WallTime now);

// Whether the pod's conditions, as they are stored, say so already. They may be anything.
bool IsShown(const Json& conditions);

}  // namespace lockstep::control
