#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/capacity/sight/provisioning_sight.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/view/stored/object_origin.h"

namespace lockstep::control {

// What autoscalers look at, as an API server keeps it; perhaps with the label of a job, which of a
// placeholder pod is lockstep.dev/placeholder-of.
struct StoredCapacity {
  std::string uid;
  ObjectOrigin origin;
  Json conditions;      // of its status; may be null
  std::string trouble;  // here and below as CapacityObject
  Json content;         // null of an object that says of no job
  int64_t generation = 0;

  friend bool operator==(const StoredCapacity&, const StoredCapacity&) = default;
};

struct StoredProvisioningRequest : StoredCapacity {};

struct StoredPodTemplate : StoredCapacity {};

struct StoredPlaceholder : StoredCapacity {};

struct StoredPodGroup : StoredCapacity {};  // kube-scheduler looks at it, not an autoscaler

// For the reflectors. Errors: as kube::DecodeRaw, and kInvalidArgument where a field is of another
// type than Kubernetes writes.
Result<kube::Item<StoredProvisioningRequest>> DecodeProvisioningRequest(std::string_view json);
Result<kube::Item<StoredPodTemplate>> DecodePodTemplateObject(std::string_view json);
Result<kube::Item<StoredPlaceholder>> DecodePlaceholder(std::string_view json);
Result<kube::Item<StoredPodGroup>> DecodePodGroup(std::string_view json);

// What the job of that uid sees of it.
CapacityObject SightOf(const std::string& name,
                       const StoredCapacity& stored,
                       const std::string& job_uid);

}  // namespace lockstep::control
