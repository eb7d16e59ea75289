#include "operator/reconcile/build/pod_shape.h"

#include <string_view>
#include <utility>

#include "operator/reconcile/build/json_edit.h"

namespace lockstep::control {

Json RequestsAsText(const ResourceVector& requests) {
  Json texts = Json::object();
  for (const NamedAmount& amount : requests.All()) {
    if (!std::string_view(amount.name).starts_with(kHostPortPrefix)) {
      texts[amount.name] = QuantityText(amount);
    }
  }
  return texts;
}

Json PodShapeOf(const RoleSpec& role, const ResourceVector& requests) {
  Json spec = {{"restartPolicy", "Never"},
               {"containers",
                Json::array({{{"name", role.pod.trainer_name},
                              {"resources", {{"requests", RequestsAsText(requests)}}}}})}};
  const Json written = ObjectOr(role.pod.raw, "spec");
  for (const char* const key : {"nodeSelector", "tolerations"}) {
    if (const Json* const value = FindField(written, key)) {
      spec[key] = *value;
    }
  }
  const Json affinity = ObjectOr(written, "affinity");
  if (const Json* const of_nodes = FindField(affinity, "nodeAffinity")) {
    spec["affinity"] = {{"nodeAffinity", *of_nodes}};
  }
  return spec;
}

}  // namespace lockstep::control
