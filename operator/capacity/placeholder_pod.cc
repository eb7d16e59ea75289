#include "operator/capacity/placeholder_pod.h"

#include <optional>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/rfc3339.h"
#include "operator/api/fields/json_edit.h"
#include "operator/capacity/capacity_request.h"
#include "operator/capacity/pod_shape.h"
#include "operator/capacity/stored_conditions.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/job_objects.h"
#include "operator/reconcile/pods/restrict_container.h"

namespace lockstep::control {
namespace {

// Source: k8s.io/api/core/v1, types.go. Both of Kubernetes' autoscaler and Karpenter take a pod for
// one that lacks a node by these words alone.
constexpr const char* kPodScheduled = "PodScheduled";
constexpr const char* kUnschedulable = "Unschedulable";

// A node has each port once: pods that take one need a node each.
Json HostPortsIn(const ResourceVector& requests) {
  Json ports = Json::array();
  for (const auto& [port, count] : requests.host_ports) {
    ports.push_back({{"containerPort", port}, {"hostPort", port}, {"protocol", "TCP"}});
  }
  return ports;
}

// Should anybody bind it all the same, this starts nothing.
void FillContainer(const ResourceVector& requests, Json* container) {
  (*container)["command"] = Json::array({kPlaceholderScheduler});
  // Devices need a limit, and a quota of limits takes no pod without: nobody ever reaches them.
  Json limits = (*container)["resources"]["requests"];
  (*container)["resources"]["limits"] = std::move(limits);
  if (Json ports = HostPortsIn(requests); !ports.empty()) {
    (*container)["ports"] = std::move(ports);
  }
  RestrictContainer(Json::object(), container);
}

}  // namespace

kube::Selection SelectPlaceholders(const std::string& namespace_name) {
  return {
      kube::kPods, namespace_name, "", std::string("spec.schedulerName=") + kPlaceholderScheduler};
}

std::string PlaceholderName(const Metadata& job, int64_t number, const TaskId& task) {
  return CapacityRequestName(job, number) + "-" + TaskName(task) + "-placeholder";
}

Json PlaceholderSpecOf(const TrainingJob& job, const RoleSpec& role) {
  const ResourceVector requests = Left(PlannedRequests(job, role), role.pod.overhead);
  Json spec = AdmittedShapeOf(job, role, requests);
  FillContainer(requests, &spec["containers"][0]);
  const Json& written = ObjectOr(*role.pod.raw, "spec");
  for (const char* const key : {"runtimeClassName", "overhead"}) {
    if (const Json* const value = FindField(written, key)) {
      spec[key] = *value;
    }
  }
  const std::string own_class = PriorityClassOfTemplate(role);
  const std::string& priority_class =
      own_class.empty() ? job.spec.scheduling.priority_class_name : own_class;
  if (!priority_class.empty()) {
    spec["priorityClassName"] = priority_class;
  }
  spec["schedulerName"] = kPlaceholderScheduler;
  spec["terminationGracePeriodSeconds"] = 0;
  spec["automountServiceAccountToken"] = false;
  spec["enableServiceLinks"] = false;
  return spec;
}

Json PlaceholderManifest(const TrainingJob& job,
                         const RoleSpec& role,
                         int index,
                         const PodSettings& settings) {
  const std::optional<CapacityAsk>& ask = job.status.provisioning;
  LOCKSTEP_CHECK(ask.has_value() && ask->open.has_value(),
                 "the job has no open request for capacity");
  Json spec = PlaceholderSpecOf(job, role);
  spec["containers"][0]["image"] = ImageOfShape(role, settings);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", PlaceholderName(job.metadata, ask->count, {role.name, index})},
            {"namespace", job.metadata.namespace_name},
            {"labels", {{label::kPlaceholderOf, job.metadata.name}}},
            {"annotations", {{kCapacityRevision, ask->open->revision}}},
            {"ownerReferences", Json::array({OwnerReference(job)})}}},
          {"spec", std::move(spec)}};
}

Json PlaceholderPatch(const Metadata& job, const std::string& uid, WallTime now) {
  const std::string message =
      "TrainingJob " + job.name +
      " waits for room for its whole gang; this placeholder shows cluster autoscalers what one of "
      "its pods requests, and is never bound to a node";
  return {{"metadata", {{"uid", uid}}},
          {"status",
           {{"conditions",
             Json::array({{{"type", kPodScheduled},
                           {"status", "False"},
                           {"reason", kUnschedulable},
                           {"message", message},
                           {"lastTransitionTime", FormatRfc3339(now)}}})}}}};
}

bool IsShown(const Json& conditions) {
  return TextIn(conditions, kPodScheduled, "reason") == kUnschedulable;
}

}  // namespace lockstep::control
