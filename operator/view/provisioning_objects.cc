#include "operator/view/provisioning_objects.h"

#include <utility>
#include <vector>

#include "operator/kube/decode.h"
#include "operator/reconcile/build/capacity_request.h"

namespace lockstep::control {
namespace {

template <typename T>
Result<kube::Item<T>> Decode(std::string_view json) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::RawObject> raw, kube::DecodeRaw(json));
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(raw.object->json));
  std::vector<Error> errors;
  T stored;
  stored.uid = raw.uid;
  ObjectReader reader(document, "", &errors);
  stored.origin = ReadOrigin(reader, kCapacityRevision, &errors);
  if (const Json* const status = reader.Find("status")) {
    ObjectReader fields(*status, "status", &errors);
    const Json* const conditions = fields.Find("conditions");
    stored.conditions = conditions == nullptr ? Json() : *conditions;
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return ItemOf(std::move(raw), std::move(stored));
}

}  // namespace

Result<kube::Item<StoredProvisioningRequest>> DecodeProvisioningRequest(std::string_view json) {
  return Decode<StoredProvisioningRequest>(json);
}

Result<kube::Item<StoredPodTemplate>> DecodePodTemplateObject(std::string_view json) {
  return Decode<StoredPodTemplate>(json);
}

Result<kube::Item<StoredPodGroup>> DecodePodGroup(std::string_view json) {
  return Decode<StoredPodGroup>(json);
}

CapacityObject SightOf(const std::string& name,
                       const StoredCapacity& stored,
                       const std::string& job_uid) {
  return {name,
          stored.uid,
          stored.origin.revision,
          !job_uid.empty() && stored.origin.owner_uid == job_uid,
          stored.origin.is_deleting,
          stored.conditions};
}

}  // namespace lockstep::control
