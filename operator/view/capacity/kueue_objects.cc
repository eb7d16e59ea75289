#include "operator/view/capacity/kueue_objects.h"

#include <set>
#include <utility>

#include "operator/api/fields/fields.h"
#include "operator/api/job/job_names.h"
#include "operator/api/job/kueue_admission.h"
#include "operator/capacity/kueue_workload.h"
#include "operator/kubeclient/kube/decode.h"

namespace lockstep::control {
namespace {

Json Copy(ObjectReader& reader, std::string_view key) {
  const Json* const value = reader.Find(key);
  return value == nullptr ? Json() : *value;
}

// The flavors that were assigned to the pods, each once, and what they say of nodes.
std::string AddFlavors(ObjectReader& assignment,
                       const FlavorsByName& flavors,
                       Errors* errors,
                       KueuePodSet* pod_set) {
  std::set<std::string> names;
  for (const auto& [resource, name] : ReadTextMap(assignment, "flavors", errors)) {
    names.insert(name);
  }
  for (const std::string& name : names) {
    const auto flavor = flavors.find(name);
    if (flavor == flavors.end()) {
      return "resource flavor " + name + ", which Kueue assigned, does not exist";
    }
    pod_set->node_selector.insert(flavor->second.node_labels.begin(),
                                  flavor->second.node_labels.end());
    pod_set->tolerations.insert(pod_set->tolerations.end(),
                                flavor->second.tolerations.begin(),
                                flavor->second.tolerations.end());
  }
  return assignment.Has("topologyAssignment")
             ? "Kueue assigned topology domains to the job's pods, but Lockstep chooses their "
               "nodes: use flavors without topologyName, and set scheduling.topology"
             : "";
}

// What the checks of admission say of the pods: a provisioned set of nodes, say.
void AddChecks(const Json& checks,
               const std::string& pod_set_name,
               Errors* errors,
               KueuePodSet* to) {
  const Json holder = {{"checks", checks}};
  ObjectReader all(holder, "status", errors);
  for (const Json* const check : all.List("checks")) {
    ObjectReader one(*check, "status.admissionChecks", errors);
    for (const Json* const update : one.List("podSetUpdates")) {
      ObjectReader fields(*update, "status.admissionChecks.podSetUpdates", errors);
      if (fields.String("name").value_or("") != pod_set_name) {
        continue;
      }
      to->node_selector.merge(ReadTextMap(fields, "nodeSelector", errors));
      to->labels.merge(ReadTextMap(fields, "labels", errors));
      to->annotations.merge(ReadTextMap(fields, "annotations", errors));
      for (Toleration& toleration : DecodeTolerations(fields, "tolerations", errors)) {
        to->tolerations.push_back(std::move(toleration));
      }
    }
  }
}

void ReadAdmission(const StoredWorkload& workload,
                   const FlavorsByName& flavors,
                   WorkloadSight* sight) {
  Errors errors;
  ObjectReader reader(workload.admission, "status.admission", &errors);
  KueueAdmission admission;
  admission.workload_uid = workload.uid;
  admission.cluster_queue = reader.String("clusterQueue").value_or("");
  for (const Json* const one : reader.List("podSetAssignments")) {
    ObjectReader assignment(*one, "status.admission.podSetAssignments", &errors);
    const std::string name = assignment.String("name").value_or("");
    KueuePodSet pod_set;
    pod_set.role = RequireEnum(assignment, "name", kRoleNames).value_or(pod_set.role);
    std::string problem = AddFlavors(assignment, flavors, &errors, &pod_set);
    if (sight->problem.empty()) {
      sight->problem = std::move(problem);
    }
    AddChecks(workload.checks, name, &errors, &pod_set);
    admission.pod_sets.push_back(std::move(pod_set));
  }
  if (!errors.empty()) {
    sight->problem = "the job's Workload cannot be read: " + errors.front().ToString();
  }
  sight->admission = std::move(admission);
}

}  // namespace

Result<kube::Item<StoredWorkload>> DecodeWorkload(std::string_view json) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::RawObject> raw, kube::DecodeRaw(json));
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(raw.object->json));
  Errors errors;
  StoredWorkload workload;
  workload.uid = raw.uid;
  workload.version = raw.resource_version;
  ObjectReader reader(document, "", &errors);
  workload.origin = ReadOrigin(reader, kWorkloadRevision, &errors);
  if (const Json* const status = reader.Find("status")) {
    ObjectReader fields(*status, "status", &errors);
    workload.conditions = Copy(fields, "conditions");
    workload.admission = Copy(fields, "admission");
    workload.checks = Copy(fields, "admissionChecks");
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return ItemOf(std::move(raw), std::move(workload));
}

Result<kube::Item<StoredFlavor>> DecodeFlavor(std::string_view json) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::RawObject> raw, kube::DecodeRaw(json));
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(raw.object->json));
  Errors errors;
  StoredFlavor flavor;
  ObjectReader reader(document, "", &errors);
  if (const Json* const spec = reader.Find("spec")) {
    ObjectReader fields(*spec, "spec", &errors);
    flavor.node_labels = ReadTextMap(fields, "nodeLabels", &errors);
    flavor.tolerations = DecodeTolerations(fields, "tolerations", &errors);
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return ItemOf(std::move(raw), std::move(flavor));
}

WorkloadSight SightOf(const StoredWorkload& workload,
                      const std::string& job_uid,
                      const FlavorsByName& flavors) {
  WorkloadSight sight;
  sight.uid = workload.uid;
  sight.version = workload.version;
  sight.revision = workload.origin.revision;
  sight.is_ours = !job_uid.empty() && workload.origin.owner_uid == job_uid;
  sight.is_deleting = workload.origin.is_deleting;
  sight.conditions = workload.conditions;
  if (workload.admission.is_object()) {
    ReadAdmission(workload, flavors, &sight);
  }
  return sight;
}

}  // namespace lockstep::control
