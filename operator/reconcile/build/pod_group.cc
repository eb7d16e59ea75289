#include "operator/reconcile/build/pod_group.h"

#include <utility>

#include "operator/reconcile/build/job_objects.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {

std::string PodGroupName(const Metadata& job, Attempt attempt) {
  return job.name + "-" + job.uid.substr(0, 8) + "-" + std::to_string(attempt.value());
}

Json PodGroupManifest(const TrainingJob& job) {
  Json spec = {
      {"schedulingPolicy", {{"gang", {{"minCount", job.status.placement.size()}}}}},
  };
  // Heeded where gangs go as a whole for others (WorkloadAwarePreemption), and dropped elsewhere.
  if (std::string name = PriorityClassOf(job.spec, job.status); !name.empty()) {
    spec["priorityClassName"] = std::move(name);
  }
  return {{"apiVersion", "scheduling.k8s.io/v1alpha2"},
          {"kind", "PodGroup"},
          {"metadata",
           {{"name", job.status.pod_group},
            {"namespace", job.metadata.namespace_name},
            {"labels", {{label::kJob, job.metadata.name}}},
            {"ownerReferences", Json::array({OwnerReference(job)})}}},
          {"spec", std::move(spec)}};
}

}  // namespace lockstep::control
