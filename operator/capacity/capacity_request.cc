#include "operator/capacity/capacity_request.h"

#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "operator/api/fields/json_edit.h"
#include "operator/capacity/placeholder_pod.h"
#include "operator/capacity/pod_shape.h"
#include "operator/reconcile/gang/gang_origin.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/job_objects.h"

namespace lockstep::control {
namespace {

// Whether the API server wants a limit beside each request for it, and the same.
bool NeedsLimit(std::string_view resource) {
  return IsDevice(resource) || resource.starts_with("hugepages-");
}

void AddLimits(Json* spec) {
  Json& resources = (*spec)["containers"][0]["resources"];
  Json limits = Json::object();
  for (const auto& [name, amount] : resources["requests"].items()) {
    if (NeedsLimit(name)) {
      limits[name] = amount;
    }
  }
  if (!limits.empty()) {
    resources["limits"] = std::move(limits);
  }
}

// What decides where pods stand beside each other, too: an autoscaler tries to place them.
Json CapacitySpecOf(const TrainingJob& job, const RoleSpec& role) {
  Json spec = AdmittedShapeOf(job, role, PlannedRequests(job, role));
  AddLimits(&spec);
  const Json& written = ObjectOr(*role.pod.raw, "spec");
  // A node has each port once: an autoscaler that is not told of them makes too few nodes.
  const Json placeholder = PlaceholderSpecOf(job, role);
  if (const Json* const ports = FindField(placeholder["containers"][0], "ports")) {
    spec["containers"][0]["ports"] = *ports;
  }
  for (const char* const key : {"affinity", "topologySpreadConstraints", "hostNetwork"}) {
    if (const Json* const value = FindField(written, key)) {
      spec[key] = *value;
    }
  }
  return spec;
}

Json LabelsOf(const TrainingJob& job, const RoleSpec& role) {
  Json labels = ObjectOr(ObjectOr(*role.pod.raw, "metadata"), "labels");
  labels[label::kJob] = job.metadata.name;
  labels[label::kRole] = RoleName(role.name);
  return labels;
}

const OpenAsk& OpenAskOf(const TrainingJob& job) {
  LOCKSTEP_CHECK(job.status.provisioning.has_value() && job.status.provisioning->open.has_value(),
                 "the job has no open request for capacity");
  return *job.status.provisioning->open;
}

Json RequestMetadataOf(const TrainingJob& job, std::string name) {
  return {{"name", std::move(name)},
          {"namespace", job.metadata.namespace_name},
          {"labels", {{label::kJob, job.metadata.name}}},
          {"annotations", {{kCapacityRevision, OpenAskOf(job).revision}}},
          {"ownerReferences", Json::array({OwnerReference(job)})}};
}

}  // namespace

std::string CapacityTemplateName(const Metadata& job, int64_t number, Role role) {
  return CapacityRequestName(job, number) + "-" + std::string(RoleName(role));
}

std::string RevisionOfCapacity(const TrainingJob& job, ProvisioningClass ask_class) {
  Json asked = Json::array({NameOf(kProvisioningClassNames, ask_class)});
  for (const RoleSpec& role : job.spec.roles) {
    if (role.replicas > 0) {
      asked.push_back({{"count", role.replicas}});
      if (ask_class == ProvisioningClass::kPlaceholderPods) {
        asked.back()["spec"] = PlaceholderSpecOf(job, role);
      } else {
        asked.back()["labels"] = LabelsOf(job, role);
        asked.back()["spec"] = CapacitySpecOf(job, role);
      }
    }
  }
  return Sha256Hex(DumpJson(asked)).substr(0, kRevisionDigits);
}

Json CapacityRequestManifest(const TrainingJob& job) {
  const OpenAsk& open = OpenAskOf(job);
  const int64_t number = job.status.provisioning->count;
  Json pod_sets = Json::array();
  for (const RoleSpec& role : job.spec.roles) {
    if (role.replicas > 0) {
      pod_sets.push_back(
          {{"podTemplateRef", {{"name", CapacityTemplateName(job.metadata, number, role.name)}}},
           {"count", role.replicas}});
    }
  }
  Json spec = {{"podSets", std::move(pod_sets)},
               {"provisioningClassName", NameOf(kProvisioningClassNames, open.ask_class)}};
  if (open.ask_class == ProvisioningClass::kCheckCapacity) {
    spec["parameters"] = {{"noRetry", "true"}};  // a no is an answer: nodes are asked for next
  }
  return {{"apiVersion", "autoscaling.x-k8s.io/v1"},
          {"kind", "ProvisioningRequest"},
          {"metadata", RequestMetadataOf(job, CapacityRequestName(job.metadata, number))},
          {"spec", std::move(spec)}};
}

Json CapacityTemplateManifest(const TrainingJob& job,
                              const RoleSpec& role,
                              const PodSettings& settings) {
  Json spec = CapacitySpecOf(job, role);
  spec["containers"][0]["image"] = ImageOfShape(role, settings);
  return {
      {"apiVersion", "v1"},
      {"kind", "PodTemplate"},
      {"metadata",
       RequestMetadataOf(
           job, CapacityTemplateName(job.metadata, job.status.provisioning->count, role.name))},
      {"template", {{"metadata", {{"labels", LabelsOf(job, role)}}}, {"spec", std::move(spec)}}}};
}

}  // namespace lockstep::control
