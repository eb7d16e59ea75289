#include "operator/api/job/encode.h"

#include <chrono>
#include <utility>

namespace lockstep::control {
namespace {

double Seconds(std::chrono::milliseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

Json EncodeMetadata(const Metadata& metadata) {
  Json value = {{"name", metadata.name}, {"namespace", metadata.namespace_name}};
  if (!metadata.uid.empty()) {
    value["uid"] = metadata.uid;
  }
  if (metadata.generation != 0) {
    value["generation"] = metadata.generation;
  }
  if (!metadata.labels.empty()) {
    value["labels"] = metadata.labels;
  }
  if (!metadata.annotations.empty()) {
    value["annotations"] = metadata.annotations;
  }
  return value;
}

Json EncodeRole(const RoleSpec& role) {
  Json value = {{"name", RoleName(role.name)},
                {"replicas", role.replicas},
                {"gpus", role.gpus},
                {"processes", role.processes},
                {"restartPolicy", RestartPolicyName(role.restart_policy)},
                {"supervise", role.supervise}};
  if (role.launcher.has_value()) {
    value["launcher"] = NameOf(kProcessLauncherNames, *role.launcher);
  }
  if (role.gpu_visibility.has_value()) {
    value["gpuVisibility"] = NameOf(kGpuVisibilityNames, *role.gpu_visibility);
  }
  if (role.shared_memory.has_value()) {
    value["sharedMemory"] = std::to_string(*role.shared_memory);
  }
  if (!role.warm.empty()) {
    value["warm"] = role.warm;
  }
  if (!role.pod.raw->empty()) {
    value["template"] = *role.pod.raw;
  }
  return value;
}

Json EncodeRunPolicy(const RunPolicy& policy) {
  Json value = {{"suspend", policy.suspend},
                {"cleanPodPolicy", CleanPodPolicyName(policy.clean_pod_policy)},
                {"evaluatorGraceSeconds", policy.evaluator_grace.count()},
                {"backoffLimit", policy.backoff_limit}};
  if (!policy.managed_by.empty()) {
    value["managedBy"] = policy.managed_by;
  }
  if (policy.active_deadline) {
    value["activeDeadlineSeconds"] = policy.active_deadline->count();
  }
  if (policy.ttl_after_finished) {
    value["ttlSecondsAfterFinished"] = policy.ttl_after_finished->count();
  }
  return value;
}

Json EncodeScheduling(const SchedulingSpec& scheduling) {
  Json value = {{"binding", PodBindingName(scheduling.binding)},
                {"startTimeoutSeconds", scheduling.start_timeout.count()}};
  if (!scheduling.queue.empty()) {
    value["queue"] = scheduling.queue;
  }
  if (!scheduling.priority_class_name.empty()) {
    value["priorityClassName"] = scheduling.priority_class_name;
  }
  Json topology = Json::object();
  if (!scheduling.topology.required.empty()) {
    topology["required"] = scheduling.topology.required;
  }
  if (!scheduling.topology.preferred.empty()) {
    topology["preferred"] = scheduling.topology.preferred;
  }
  if (!topology.empty()) {
    value["topology"] = std::move(topology);
  }
  if (scheduling.timeout) {
    value["timeoutSeconds"] = scheduling.timeout->count();
  }
  if (scheduling.provisioning != Provisioning::kNone) {
    value["provisioning"] = NameOf(kProvisioningNames, scheduling.provisioning);
  }
  return value;
}

Json EncodeSpec(const TrainingJobSpec& spec) {
  Json roles = Json::array();
  for (const RoleSpec& role : spec.roles) {
    roles.push_back(EncodeRole(role));
  }
  Json value = {{"strategy", StrategyName(spec.strategy)}, {"roles", std::move(roles)}};
  if (spec.training) {
    value["training"] = EncodeTrainingSection(*spec.training);
  }
  value["runPolicy"] = EncodeRunPolicy(spec.run_policy);
  value["successPolicy"] = SuccessPolicyName(spec.success_policy);
  value["scheduling"] = EncodeScheduling(spec.scheduling);
  if (spec.elastic) {
    value["elastic"] = {{"minReplicas", spec.elastic->min_replicas},
                        {"maxReplicas", spec.elastic->max_replicas}};
  }
  value["recovery"] = {{"replacementTimeoutSeconds", Seconds(spec.recovery.replacement_timeout)},
                       {"rendezvousTimeoutSeconds", Seconds(spec.recovery.rendezvous_timeout)},
                       {"silentAfterSeconds", Seconds(spec.recovery.silent_after)}};
  if (spec.recovery.relaunch) {
    value["recovery"]["relaunch"] = true;
  }
  if (spec.recovery.hung_after) {
    value["recovery"]["hungAfterSeconds"] = Seconds(*spec.recovery.hung_after);
  }
  return value;
}

}  // namespace

Json EncodeTrainingJob(const TrainingJob& job) {
  Json value = {{"apiVersion", kApiVersion},
                {"kind", kTrainingJobKind},
                {"metadata", EncodeMetadata(job.metadata)},
                {"spec", EncodeSpec(job.spec)}};
  if (job.status != TrainingJobStatus()) {
    value["status"] = EncodeStatus(job);
  }
  return value;
}

}  // namespace lockstep::control
