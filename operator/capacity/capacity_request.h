#pragma once

#include <string>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// The ProvisioningRequest (autoscaling.x-k8s.io/v1) by which a gang asks autoscalers for room, and
// the PodTemplates that it names, one for each role.

// The annotation by which such an object says what it was made of.
inline constexpr const char* kCapacityRevision = "lockstep.dev/capacity-revision";

// "{CapacityRequestName}-{role}".
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
