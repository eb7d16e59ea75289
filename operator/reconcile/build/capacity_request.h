#pragma once

#include <string>

#include "common/json/json.h"
#include "operator/api/training_job.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// The ProvisioningRequest (autoscaling.x-k8s.io/v1) by which a gang asks autoscalers for room, and
// the PodTemplates that it names, one for each role.

// The annotation by which such an object says what it was made of.
inline constexpr const char* kCapacityRevision = "lockstep.dev/capacity-revision";

// Annotations of pods that use what a request has found.
// Source: Kubernetes' cluster autoscaler, provisioningrequest/pods/pods.go.
inline constexpr const char* kConsumesRequest = "autoscaling.x-k8s.io/consume-provisioning-request";
inline constexpr const char* kConsumesClass = "autoscaling.x-k8s.io/provisioning-class-name";

// "{job}-{first 8 characters of the uid}-{number}": every ask has a name of its own, as no request
// can be changed.
std::string CapacityRequestName(const Metadata& job, int64_t number);
std::string CapacityTemplateName(const Metadata& job, int64_t number, Role role);

// Equal where both ask for the same. 16 hexadecimal digits. Here and below, what admission made of
// earlier pods, and Kueue's answer, are those of job.status.
std::string RevisionOfCapacity(const TrainingJob& job, ProvisioningClass ask_class);

// The objects of the ask that is open. Precondition: job.status.provisioning has one.
Json CapacityRequestManifest(const TrainingJob& job);
Json CapacityTemplateManifest(const TrainingJob& job,
                              const RoleSpec& role,
                              const PodSettings& settings);

}  // namespace lockstep::control
