#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/item.h"

namespace lockstep::control {

// A PriorityClass of the cluster, as far as it counts for gangs.
struct PriorityClass {
  int64_t value = 0;
  bool is_default = false;     // of jobs that name none
  bool may_preempt = true;     // false: preemptionPolicy is Never
  bool is_preemptible = true;  // false: its label lockstep.dev/preemptible is "false"

  friend bool operator==(const PriorityClass&, const PriorityClass&) = default;
};

// For the reflector of priority classes. Errors: as kube::DecodeRaw, and kInvalidArgument where a
// field is of another type than Kubernetes writes.
Result<kube::Item<PriorityClass>> DecodePriorityClass(std::string_view json);

// What a class says of a gang.
struct PriorityTerms {
  int64_t priority = 0;
  bool may_preempt = true;
  bool is_preemptible = true;
  std::string missing;  // the class that the gang names is not there, in words; empty: it is

  friend bool operator==(const PriorityTerms&, const PriorityTerms&) = default;
};

// The classes by name. Of several that are the default the one of least value counts, as for pods;
// without any, whoever names none has priority 0. A gang of a class that is not there is evicted by
// nobody: what it was meant to be is not known.
PriorityTerms TermsOfClass(const std::map<std::string, PriorityClass>& classes,
                           const std::string& name);

// The same for a gang that got its places with `granted`: it keeps that priority whatever becomes
// of its class, as pods keep theirs. Whether it may be evicted the class says while there is one.
// Null: what was granted is not known.
PriorityTerms TermsOfPlaced(const std::map<std::string, PriorityClass>& classes,
                            const std::string& name,
                            const std::optional<GrantedPriority>& granted);

}  // namespace lockstep::control
