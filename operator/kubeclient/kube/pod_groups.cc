#include "operator/kubeclient/kube/pod_groups.h"

#include <algorithm>

#include "common/json/json.h"

namespace lockstep::control::kube {

std::string_view VersionName(PodGroupVersion version) {
  switch (version) {
    case PodGroupVersion::kV1Beta1:
      return "v1beta1";
    case PodGroupVersion::kV1Alpha3:
      return "v1alpha3";
    case PodGroupVersion::kV1Alpha2:
      return "v1alpha2";
  }
  return "";
}

std::string ApiVersionOf(PodGroupVersion version) {
  return std::string(kPodGroups.group) + "/" + std::string(VersionName(version));
}

ResourceType PodGroupsIn(PodGroupVersion version) {
  ResourceType type = kPodGroups;
  type.version = VersionName(version);
  return type;
}

Request AskForSchedulingVersions() {
  Request request;
  request.resource = kPodGroups;
  request.method = "GET";
  request.target = "/apis/" + std::string(kPodGroups.group);
  return request;
}

Result<std::vector<std::string>> ReadServedVersions(std::string_view body) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(body));
  std::vector<Error> errors;
  ObjectReader group(document, "", &errors);
  if (const std::string kind = group.String("kind").value_or(""); kind != "APIGroup") {
    return Error(ErrorCode::kInvalidArgument, "kind: \"" + kind + "\" found, expected APIGroup");
  }
  std::vector<std::string> versions;
  for (const Json* const each : group.List("versions")) {
    ObjectReader version(*each, group.PathOf("versions", versions.size()), &errors);
    versions.push_back(version.String("version").value_or(""));
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return versions;
}

std::optional<PodGroupVersion> ChoosePodGroups(const std::vector<std::string>& served,
                                               std::optional<PodGroupVersion> current) {
  const auto is_served = [&](PodGroupVersion version) {
    return std::find(served.begin(), served.end(), VersionName(version)) != served.end();
  };
  if (current && is_served(*current)) {
    return current;
  }
  const auto best = std::find_if(kPodGroupVersions.begin(), kPodGroupVersions.end(), is_served);
  return best == kPodGroupVersions.end() ? std::nullopt : std::optional(*best);
}

}  // namespace lockstep::control::kube
