#include "operator/capacity/kueue_workload.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/digest.h"
#include "common/base/rfc3339.h"
#include "operator/api/fields/json_edit.h"
#include "operator/capacity/pod_shape.h"
#include "operator/capacity/stored_conditions.h"
#include "operator/reconcile/gang/gang_origin.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/job_objects.h"

namespace lockstep::control {
namespace {

Json PodSetOf(const RoleSpec& role) {
  return {
      {"name", RoleName(role.name)},
      {"count", role.replicas},
      {"template", {{"metadata", Json::object()}, {"spec", PodShapeOf(role, RequestsOf(role))}}}};
}

Json WorkloadSpecOf(const TrainingJob& job) {
  Json pod_sets = Json::array();
  for (const RoleSpec& role : job.spec.roles) {
    if (role.replicas > 0) {
      pod_sets.push_back(PodSetOf(role));
    }
  }
  Json spec = {{"queueName", KueueQueueOf(job.metadata)}, {"podSets", std::move(pod_sets)}};
  if (const std::string name = PriorityClassOf(job.spec); !name.empty()) {
    spec["priorityClassRef"] = {
        {"group", "scheduling.k8s.io"}, {"kind", "PriorityClass"}, {"name", name}};
  }
  return spec;
}

// In place of the one of its type, whose time it keeps where that is true or false as before.
void SetIn(const WorkloadSight& workload,
           const WorkloadCondition& change,
           WallTime now,
           Json* conditions) {
  const char* const truth = change.is_true ? "True" : "False";
  const bool stays = TextIn(workload.conditions, change.type, "status") == truth;
  const std::string since = TextIn(workload.conditions, change.type, "lastTransitionTime");
  Json value = {{"type", change.type},
                {"status", truth},
                {"reason", change.reason},
                {"message", change.message},
                {"lastTransitionTime", stays && !since.empty() ? since : FormatRfc3339(now)}};
  for (Json& one : *conditions) {
    const Json* const name = FindField(one, "type");
    if (name != nullptr && *name == change.type) {
      one = std::move(value);
      return;
    }
  }
  conditions->push_back(std::move(value));
}

}  // namespace

std::string UnheededKueueLabel(const Metadata& job) {
  const auto found = std::find_if(job.labels.begin(), job.labels.end(), [](const auto& label) {
    return label.first.starts_with(kKueuePrefix) && label.first != kKueueQueueLabel;
  });
  return found == job.labels.end() ? std::string() : found->first;
}

std::string WorkloadName(const Metadata& job) {
  return "trainingjob-" + job.name + "-" + job.uid.substr(0, 8);
}

Json WorkloadManifest(const TrainingJob& job, int64_t priority) {
  Json spec = WorkloadSpecOf(job);
  spec["priority"] = priority;
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
          {"kind", "Workload"},
          {"metadata",
           {{"name", WorkloadName(job.metadata)},
            {"namespace", job.metadata.namespace_name},
            {"labels",
             {{label::kJob, job.metadata.name}, {"kueue.x-k8s.io/job-uid", job.metadata.uid}}},
            {"annotations", {{kWorkloadRevision, WorkloadRevision(job)}}},
            {"ownerReferences", Json::array({OwnerReference(job)})}}},
          {"spec", std::move(spec)}};
}

std::string WorkloadRevision(const TrainingJob& job) {
  return Sha256Hex(DumpJson(WorkloadSpecOf(job))).substr(0, kRevisionDigits);
}

bool IsWorkload(const WorkloadSight& workload, std::string_view type) {
  return IsTrueIn(workload.conditions, type);
}

std::string WorkloadMessage(const WorkloadSight& workload, std::string_view type) {
  return TextIn(workload.conditions, type, "message");
}

std::string WorkloadReason(const WorkloadSight& workload, std::string_view type) {
  return TextIn(workload.conditions, type, "reason");
}

Json WorkloadPatch(const WorkloadSight& workload,
                   const std::vector<WorkloadCondition>& changes,
                   bool gives_up_quota,
                   WallTime now) {
  Json conditions = workload.conditions.is_array() ? workload.conditions : Json::array();
  for (const WorkloadCondition& change : changes) {
    SetIn(workload, change, now, &conditions);
  }
  Json status = {{"conditions", std::move(conditions)}};
  if (gives_up_quota) {
    status["admission"] = nullptr;
  }
  return {{"metadata", {{"uid", workload.uid}, {"resourceVersion", workload.version}}},
          {"status", std::move(status)}};
}

}  // namespace lockstep::control
