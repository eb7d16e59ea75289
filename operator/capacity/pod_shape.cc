#include "operator/capacity/pod_shape.h"

#include <utility>

#include "operator/api/fields/json_edit.h"

namespace lockstep::control {

Json RequestsAsText(const ResourceVector& requests) {
  Json texts = Json::object();
  for (const NamedAmount& amount : requests.All()) {
    texts[amount.name] = QuantityText(amount);
  }
  return texts;
}

Json PodShapeOf(const RoleSpec& role, const ResourceVector& requests) {
  Json spec = {{"restartPolicy", "Never"},
               {"containers",
                Json::array({{{"name", role.pod.trainer_name},
                              {"resources", {{"requests", RequestsAsText(requests)}}}}})}};
  const Json& written = ObjectOr(*role.pod.raw, "spec");
  for (const char* const key : {"nodeSelector", "tolerations"}) {
    if (const Json* const value = FindField(written, key)) {
      spec[key] = *value;
    }
  }
  const Json& affinity = ObjectOr(written, "affinity");
  if (const Json* const of_nodes = FindField(affinity, "nodeAffinity")) {
    spec["affinity"] = {{"nodeAffinity", *of_nodes}};
  }
  return spec;
}

std::string ImageOfShape(const RoleSpec& role, const PodSettings& settings) {
  const std::string& image = role.pod.image.empty() ? settings.runtime_image : role.pod.image;
  return image.empty() ? settings.runtime_path : image;
}

Json AdmittedShapeOf(const TrainingJob& job, const RoleSpec& role, const ResourceVector& requests) {
  Json spec = PodShapeOf(role, requests);
  const KueuePodSet* const admitted = FindPodSet(job.status.kueue, role.name);
  if (admitted == nullptr) {
    return spec;
  }
  for (const auto& [name, value] : admitted->node_selector) {
    if (Json* const selector = ObjectAt(&spec, "nodeSelector")) {
      SetDefault(selector, name.c_str(), value);
    }
  }
  for (const Toleration& toleration : admitted->tolerations) {
    if (Json* const tolerations = ListAt(&spec, "tolerations")) {
      tolerations->push_back(EncodeToleration(toleration));
    }
  }
  return spec;
}

}  // namespace lockstep::control
