#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/capacity/sight/kueue_sight.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/resources/toleration.h"
#include "operator/view/stored/object_origin.h"

namespace lockstep::control {

// Kueue's objects as an API server keeps them, as far as gangs depend on them.

// A Workload that says that it is of a job of ours.
struct StoredWorkload {
  std::string uid;
  std::string version;
  ObjectOrigin origin;
  Json conditions;  // of its status; may be null
  Json admission;   // likewise
  Json checks;      // status.admissionChecks; may be null

  friend bool operator==(const StoredWorkload&, const StoredWorkload&) = default;
};

// A kind of nodes that Kueue has quota of.
struct StoredFlavor {
  std::map<std::string, std::string> node_labels;
  std::vector<Toleration> tolerations;

  friend bool operator==(const StoredFlavor&, const StoredFlavor&) = default;
};

using FlavorsByName = std::map<std::string, StoredFlavor>;

// For the reflectors. Errors: as kube::DecodeRaw, and kInvalidArgument where a field is of another
// type than Kueue writes.
Result<kube::Item<StoredWorkload>> DecodeWorkload(std::string_view json);
Result<kube::Item<StoredFlavor>> DecodeFlavor(std::string_view json);

// What the job of that uid sees of the Workload of its name.
WorkloadSight SightOf(const StoredWorkload& workload,
                      const std::string& job_uid,
                      const FlavorsByName& flavors);

}  // namespace lockstep::control
