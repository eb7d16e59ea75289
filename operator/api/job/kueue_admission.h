#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/contract/environment/role.h"
#include "common/json/json.h"
#include "operator/resources/toleration.h"

namespace lockstep::control {

// Of the labels by which a job speaks to Kueue.
inline constexpr std::string_view kKueuePrefix = "kueue.x-k8s.io/";

// Names the LocalQueue of Kueue in which a job stands.
inline constexpr const char* kKueueQueueLabel = "kueue.x-k8s.io/queue-name";

// What Kueue's admission says of the pods of a role, beside what their template says.
struct KueuePodSet {
  Role role = Role::kWorker;
  std::map<std::string, std::string> node_selector;
  std::vector<Toleration> tolerations;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;

  friend bool operator==(const KueuePodSet&, const KueuePodSet&) = default;
};

// The share of a cluster that Kueue has given to a job. It is in the status before any place is:
// a gang's pods are alike, whatever Kueue's objects say later.
struct KueueAdmission {
  std::string workload_uid;  // of the Workload that was admitted
  std::string cluster_queue;
  std::vector<KueuePodSet> pod_sets;  // each role once

  friend bool operator==(const KueueAdmission&, const KueueAdmission&) = default;
};

// The role's; null where there is none.
const KueuePodSet* FindPodSet(const std::optional<KueueAdmission>& admission, Role role);

// Tolerations as Kubernetes writes them, read leniently.
std::vector<Toleration> DecodeTolerations(ObjectReader& reader,
                                          std::string_view key,
                                          std::vector<Error>* errors);
Json EncodeToleration(const Toleration& toleration);

// status.kueue, as the rest of the status: leniently, with every problem and its path. Null where
// `value` is.
std::optional<KueueAdmission> DecodeKueueAdmission(const Json* value,
                                                   const std::string& path,
                                                   std::vector<Error>* errors);

// Null: nothing is added.
void SetKueueAdmission(const std::optional<KueueAdmission>& admission, Json* status);

}  // namespace lockstep::control
