#include "operator/reconcile/pods/job_objects.h"

#include "common/contract/environment/topology.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// Which pods are the job's: those of an earlier job of the same name are not.
Labels SelectorOf(const Metadata& job) {
  return {{label::kJob, job.name}, {label::kJobUid, job.uid}};
}

Json ObjectMetadataOf(const TrainingJob& job, const std::string& name) {
  return {{"name", name},
          {"namespace", job.metadata.namespace_name},
          {"labels", SelectorOf(job.metadata)},
          {"ownerReferences", Json::array({OwnerReference(job)})}};
}

}  // namespace

Json OwnerReference(const TrainingJob& job) {
  return {{"apiVersion", kApiVersion},
          {"kind", kTrainingJobKind},
          {"name", job.metadata.name},
          {"uid", job.metadata.uid},
          {"controller", true},
          {"blockOwnerDeletion", true}};
}

Json ServiceManifest(const TrainingJob& job) {
  const Json mesh = {{"name", "mesh"}, {"port", kMeshPort}, {"protocol", "TCP"}};
  const Json status = {{"name", "status"}, {"port", kStatusPort}, {"protocol", "TCP"}};
  const Json spec = {{"clusterIP", "None"},
                     {"publishNotReadyAddresses", true},
                     {"selector", SelectorOf(job.metadata)},
                     {"ports", Json::array({mesh, status})}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", ObjectMetadataOf(job, job.metadata.name)},
          {"spec", spec}};
}

ServiceState JudgeService(const TrainingJob& job, const kube::Service* found) {
  if (found == nullptr) {
    return ServiceState::kMissing;
  }
  if (found->owner_uid != job.metadata.uid) {
    return ServiceState::kForeign;
  }
  const bool is_as_made = found->is_headless && found->publishes_not_ready &&
                          found->selector == SelectorOf(job.metadata);
  return is_as_made ? ServiceState::kReady : ServiceState::kMissing;
}

std::string KeySecretName(const Metadata& job) {
  return job.name + "-" + job.uid.substr(0, 8) + "-key";
}

Json KeySecretManifest(const TrainingJob& job, std::string_view job_key) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", ObjectMetadataOf(job, KeySecretName(job.metadata))},
          {"type", "Opaque"},
          {"immutable", true},
          {"stringData", {{kSecretField, job_key}}}};
}

}  // namespace lockstep::control
