#include "operator/api/job/kueue_admission.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "operator/api/fields/fields.h"
#include "operator/api/job/job_names.h"

namespace lockstep::control {
namespace {

KueuePodSet DecodePodSet(ObjectReader& reader, std::vector<Error>* errors) {
  KueuePodSet pod_set;
  pod_set.role = RequireEnum(reader, "role", kRoleNames).value_or(pod_set.role);
  pod_set.node_selector = ReadTextMap(reader, "nodeSelector", errors);
  pod_set.tolerations = DecodeTolerations(reader, "tolerations", errors);
  pod_set.labels = ReadTextMap(reader, "labels", errors);
  pod_set.annotations = ReadTextMap(reader, "annotations", errors);
  return pod_set;
}

Json EncodePodSet(const KueuePodSet& pod_set) {
  Json value = {{"role", RoleName(pod_set.role)}};
  if (!pod_set.node_selector.empty()) {
    value["nodeSelector"] = pod_set.node_selector;
  }
  if (!pod_set.tolerations.empty()) {
    Json& tolerations = value["tolerations"] = Json::array();
    for (const Toleration& toleration : pod_set.tolerations) {
      tolerations.push_back(EncodeToleration(toleration));
    }
  }
  if (!pod_set.labels.empty()) {
    value["labels"] = pod_set.labels;
  }
  if (!pod_set.annotations.empty()) {
    value["annotations"] = pod_set.annotations;
  }
  return value;
}

}  // namespace

const KueuePodSet* FindPodSet(const std::optional<KueueAdmission>& admission, Role role) {
  if (!admission.has_value()) {
    return nullptr;
  }
  const auto found = std::find_if(admission->pod_sets.begin(),
                                  admission->pod_sets.end(),
                                  [&](const KueuePodSet& one) { return one.role == role; });
  return found == admission->pod_sets.end() ? nullptr : &*found;
}

std::vector<Toleration> DecodeTolerations(ObjectReader& reader,
                                          std::string_view key,
                                          std::vector<Error>* errors) {
  std::vector<Toleration> tolerations;
  const std::vector<const Json*> items = reader.List(key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader item(*items[i], reader.PathOf(key, i), errors);
    Toleration toleration;
    toleration.key = item.String("key").value_or("");
    toleration.is_exists = item.String("operator").value_or("") == "Exists";
    toleration.value = item.String("value").value_or("");
    toleration.effect = item.String("effect").value_or("");
    if (const std::optional<int64_t> seconds = item.Int("tolerationSeconds")) {
      toleration.seconds = std::chrono::seconds(*seconds);
    }
    tolerations.push_back(std::move(toleration));
  }
  return tolerations;
}

Json EncodeToleration(const Toleration& toleration) {
  Json value = {{"operator", toleration.is_exists ? "Exists" : "Equal"}};
  for (const auto& [key, text] : {std::pair("key", &toleration.key),
                                  std::pair("value", &toleration.value),
                                  std::pair("effect", &toleration.effect)}) {
    if (!text->empty()) {
      value[key] = *text;
    }
  }
  if (toleration.seconds.has_value()) {
    value["tolerationSeconds"] = toleration.seconds->count();
  }
  return value;
}

std::optional<KueueAdmission> DecodeKueueAdmission(const Json* value,
                                                   const std::string& path,
                                                   std::vector<Error>* errors) {
  if (value == nullptr) {
    return std::nullopt;
  }
  ObjectReader reader(*value, path, errors);
  KueueAdmission admission;
  admission.workload_uid = reader.String("workloadUid").value_or("");
  admission.cluster_queue = reader.String("clusterQueue").value_or("");
  const std::vector<const Json*> pod_sets = reader.List("podSets");
  for (std::size_t i = 0; i < pod_sets.size(); ++i) {
    ObjectReader pod_set(*pod_sets[i], reader.PathOf("podSets", i), errors);
    admission.pod_sets.push_back(DecodePodSet(pod_set, errors));
  }
  return admission;
}

void SetKueueAdmission(const std::optional<KueueAdmission>& admission, Json* status) {
  if (!admission.has_value()) {
    return;
  }
  Json pod_sets = Json::array();
  for (const KueuePodSet& pod_set : admission->pod_sets) {
    pod_sets.push_back(EncodePodSet(pod_set));
  }
  (*status)["kueue"] = {{"workloadUid", admission->workload_uid},
                        {"clusterQueue", admission->cluster_queue},
                        {"podSets", std::move(pod_sets)}};
}

}  // namespace lockstep::control
