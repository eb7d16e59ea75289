#include "operator/view/capacity/provisioning_objects.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "operator/api/fields/pod_label_names.h"
#include "operator/capacity/capacity_request.h"
#include "operator/capacity/placeholder_pod.h"
#include "operator/kubeclient/kube/decode.h"

namespace lockstep::control {
namespace {

// What somebody has made of a pod so that it does not do what it is there for.
std::string TroubleOf(ObjectReader& pod, std::vector<Error>* errors) {
  const Json nothing = Json::object();
  const Json* const written_spec = pod.Find("spec");
  const Json* const written_status = pod.Find("status");
  ObjectReader spec(written_spec == nullptr ? nothing : *written_spec, "spec", errors);
  ObjectReader status(written_status == nullptr ? nothing : *written_status, "status", errors);
  if (const std::string node = spec.String("nodeName").value_or(""); !node.empty()) {
    return "was bound to node " + node + " by somebody";
  }
  if (const std::string name = spec.String("schedulerName").value_or("");
      name != kPlaceholderScheduler) {
    return "was given the scheduler " + name + " by a webhook";
  }
  if (!spec.List("schedulingGates").empty()) {
    return "was given a scheduling gate by a webhook, and autoscalers ignore pods that have a gate";
  }
  const std::string phase = status.String("phase").value_or("");
  return phase == "Failed" || phase == "Succeeded" ? "has ended" : "";
}

// Objects of others are not compared with anything.
bool IsOfJob(const ObjectOrigin& origin) {
  return !origin.owner_job.empty() || !origin.label_job.empty();
}

// What an object is there to say. `field`: where it says it; null: nothing that is compared.
void ReadContent(ObjectReader& object,
                 const char* field,
                 std::vector<Error>* errors,
                 StoredCapacity* stored) {
  if (field == nullptr || !IsOfJob(stored->origin)) {
    return;
  }
  if (const Json* const content = object.Find(field)) {
    stored->content = *content;
  }
  if (const Json* const metadata = object.Find("metadata")) {
    ObjectReader fields(*metadata, object.PathOf("metadata"), errors);
    stored->generation = fields.Int("generation").value_or(0);
  }
}

template <typename T>
Result<kube::Item<T>> Decode(std::string_view json,
                             const char* content_field,
                             const char* job_key = label::kJob) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::RawObject> raw, kube::DecodeRaw(json));
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(raw.object->json));
  std::vector<Error> errors;
  T stored;
  stored.uid = raw.uid;
  ObjectReader reader(document, "", &errors);
  stored.origin = ReadOrigin(reader, kCapacityRevision, &errors, job_key);
  ReadContent(reader, content_field, &errors, &stored);
  if (const Json* const status = reader.Find("status")) {
    ObjectReader fields(*status, "status", &errors);
    const Json* const conditions = fields.Find("conditions");
    stored.conditions = conditions == nullptr ? Json() : *conditions;
  }
  if constexpr (std::is_same_v<T, StoredPlaceholder>) {
    stored.trouble = TroubleOf(reader, &errors);
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return ItemOf(std::move(raw), std::move(stored));
}

}  // namespace

Result<kube::Item<StoredProvisioningRequest>> DecodeProvisioningRequest(std::string_view json) {
  return Decode<StoredProvisioningRequest>(json, "spec");
}

Result<kube::Item<StoredPodTemplate>> DecodePodTemplateObject(std::string_view json) {
  return Decode<StoredPodTemplate>(json, "template");
}

Result<kube::Item<StoredPlaceholder>> DecodePlaceholder(std::string_view json) {
  return Decode<StoredPlaceholder>(json, nullptr, label::kPlaceholderOf);
}

Result<kube::Item<StoredPodGroup>> DecodePodGroup(std::string_view json) {
  return Decode<StoredPodGroup>(json, nullptr);
}

CapacityObject SightOf(const std::string& name,
                       const StoredCapacity& stored,
                       const std::string& job_uid) {
  return {name,
          stored.uid,
          stored.origin.revision,
          !job_uid.empty() && stored.origin.owner_uid == job_uid,
          stored.origin.is_deleting,
          stored.conditions,
          stored.trouble,
          stored.content,
          stored.generation};
}

}  // namespace lockstep::control
