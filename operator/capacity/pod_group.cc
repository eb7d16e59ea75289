#include "operator/capacity/pod_group.h"

#include <utility>

#include "operator/capacity/stored_conditions.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/job_objects.h"

namespace lockstep::control {
namespace {

// The condition that says whether kube-scheduler has placed the group. Later versions let it be
// true for good once it is, as its name says. Source: types.go of each version.
const char* PlacedCondition(kube::PodGroupVersion version) {
  return version == kube::PodGroupVersion::kV1Alpha2 ? "PodGroupScheduled"
                                                     : "PodGroupInitiallyScheduled";
}

}  // namespace

std::string PodGroupName(const Metadata& job, Attempt attempt) {
  return job.name + "-" + job.uid.substr(0, 8) + "-" + std::to_string(attempt.value());
}

Json PodGroupManifest(const TrainingJob& job, kube::PodGroupVersion version) {
  Json spec = {
      {"schedulingPolicy", {{"gang", {{"minCount", job.status.placement.size()}}}}},
  };
  // In v1alpha2 it is dropped unless gangs go as a whole for others (WorkloadAwarePreemption).
  if (std::string name = PriorityClassOf(job.spec, job.status); !name.empty()) {
    spec["priorityClassName"] = std::move(name);
  }
  return {{"apiVersion", kube::ApiVersionOf(version)},
          {"kind", "PodGroup"},
          {"metadata",
           {{"name", job.status.pod_group},
            {"namespace", job.metadata.namespace_name},
            {"labels", {{label::kJob, job.metadata.name}}},
            {"ownerReferences", Json::array({OwnerReference(job)})}}},
          {"spec", std::move(spec)}};
}

std::string WhyNotPlaced(const Json& conditions, kube::PodGroupVersion version) {
  const char* const type = PlacedCondition(version);
  return IsTrueIn(conditions, type) ? "" : TextIn(conditions, type, "message");
}

}  // namespace lockstep::control
