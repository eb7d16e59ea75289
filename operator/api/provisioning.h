#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/json/enum_names.h"
#include "common/json/json.h"

namespace lockstep::control {

// By which objects a gang that waits for room shows itself to cluster autoscalers.
enum class Provisioning {
  kNone,
  kProvisioningRequest,  // of autoscaling.x-k8s.io
};

// kNone is said by leaving the field out.
inline constexpr EnumNames<Provisioning, 1> kProvisioningNames = {{
    {Provisioning::kProvisioningRequest, "ProvisioningRequest"},
}};

// What an autoscaler is asked for. Source: the class names of Kubernetes' cluster autoscaler.
enum class ProvisioningClass {
  kCheckCapacity,  // whether there is room, which is kept for a while then
  kAtomicScaleUp,  // nodes for the whole gang, or none
};

inline constexpr EnumNames<ProvisioningClass, 2> kProvisioningClassNames = {{
    {ProvisioningClass::kCheckCapacity, "check-capacity.autoscaling.x-k8s.io"},
    {ProvisioningClass::kAtomicScaleUp, "best-effort-atomic-scale-up.autoscaling.x-k8s.io"},
}};

// One ProvisioningRequest that is in force.
struct OpenAsk {
  ProvisioningClass ask_class = ProvisioningClass::kCheckCapacity;
  std::string revision;       // of what it asks for
  WallTime since;             // when it was decided
  bool has_capacity = false;  // the autoscaler says that there is room

  friend bool operator==(const OpenAsk&, const OpenAsk&) = default;
};

// What a job's gangs ask of autoscalers. It is in the status before any object is made: whatever is
// there besides is left over.
struct CapacityAsk {
  int64_t count = 0;                 // requests that were decided, by which they are numbered
  std::optional<OpenAsk> open;       // the last of them; null: nothing is asked for
  int64_t failures = 0;              // in a row
  std::optional<WallTime> retry_at;  // nothing is asked for before
  std::string failure;               // why the last one that failed did, for people

  friend bool operator==(const CapacityAsk&, const CapacityAsk&) = default;
};

// status.provisioning, as the rest of the status: leniently, with every problem and its path. Null
// where `value` is.
std::optional<CapacityAsk> DecodeCapacityAsk(const Json* value,
                                             const std::string& path,
                                             std::vector<Error>* errors);

// Null: nothing is added.
void SetCapacityAsk(const std::optional<CapacityAsk>& ask, Json* status);

}  // namespace lockstep::control
