#pragma once

#include <string>
#include <string_view>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// What a job owns besides its pods, as objects for the API server.

// The one entry of metadata.ownerReferences: deleting the job deletes the object.
Json OwnerReference(const TrainingJob& job);

// The headless service that gives pods their DNS names, those that are not ready among them. Its
// name is the job's.
Json ServiceManifest(const TrainingJob& job);

// What `found`, the service of the job's name, means to the job. Null: there is none.
ServiceState JudgeService(const TrainingJob& job, const kube::Service* found);

// The key under which the secret holds the job's key.
inline constexpr const char* kSecretField = "key";

// "{job}-{first 8 characters of the uid}-key": a later job of the same name gets another.
std::string KeySecretName(const Metadata& job);

// The secret with the job's key, which cannot be changed once it is there.
Json KeySecretManifest(const TrainingJob& job, std::string_view job_key);

}  // namespace lockstep::control
