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

struct Metadata;

// By which objects a gang that waits for room shows itself to cluster autoscalers.
enum class Provisioning {
  kNone,
  kProvisioningRequest,  // of autoscaling.x-k8s.io
  kPods,                 // placeholder pods, which nobody binds
};

// kNone is said by leaving the field out.
inline constexpr EnumNames<Provisioning, 2> kProvisioningNames = {{
    {Provisioning::kProvisioningRequest, "ProvisioningRequest"},
    {Provisioning::kPods, "Pods"},
}};

// What an autoscaler is asked for. Source: the class names of Kubernetes' cluster autoscaler; the
// last one is ours.
enum class ProvisioningClass {
  kCheckCapacity,    // whether there is room, which is kept for a while then
  kAtomicScaleUp,    // nodes for the whole gang, or none
  kPlaceholderPods,  // nodes for what pods lack, by pods alone
};

inline constexpr EnumNames<ProvisioningClass, 3> kProvisioningClassNames = {{
    {ProvisioningClass::kCheckCapacity, "check-capacity.autoscaling.x-k8s.io"},
    {ProvisioningClass::kAtomicScaleUp, "best-effort-atomic-scale-up.autoscaling.x-k8s.io"},
    {ProvisioningClass::kPlaceholderPods, "placeholder-pods.lockstep.dev"},
}};

// One ask that is in force: a ProvisioningRequest, or the placeholder pods of one number.
struct OpenAsk {
  ProvisioningClass ask_class = ProvisioningClass::kCheckCapacity;
  std::string revision;       // of what it asks for
  WallTime since;             // when it was decided
  bool has_capacity = false;  // the autoscaler says that there is room
  // When the autoscaler first said anything of it, and anew when that became that there is room.
  std::optional<WallTime> answered_at{};

  friend bool operator==(const OpenAsk&, const OpenAsk&) = default;
};

// What a job's gangs ask of autoscalers. It is in the status before any object is made: whatever is
// there besides is left over.
struct CapacityAsk {
  int64_t count = 0;                 // asks that were decided, by which they are numbered
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

// "{job}-{first 8 characters of the uid}-{number}": every ask has a name of its own, as no request
// can be changed.
std::string CapacityRequestName(const Metadata& job, int64_t number);

}  // namespace lockstep::control
