#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control::kube {

// The versions in which API servers have PodGroups (scheduling.k8s.io), by which kube-scheduler
// places gangs. Kubernetes 1.36 serves v1alpha2; 1.37 serves v1beta1 and v1alpha3, and cannot read
// what was stored in v1alpha2. Each is off unless the cluster's owner turns it on.
enum class PodGroupVersion { kV1Beta1, kV1Alpha3, kV1Alpha2 };

// In the order in which they are preferred.
inline constexpr std::array kPodGroupVersions = {
    PodGroupVersion::kV1Beta1, PodGroupVersion::kV1Alpha3, PodGroupVersion::kV1Alpha2};

// "v1beta1".
std::string_view VersionName(PodGroupVersion version);

// "scheduling.k8s.io/v1beta1".
std::string ApiVersionOf(PodGroupVersion version);

ResourceType PodGroupsIn(PodGroupVersion version);

// Asks the API server in which versions it serves scheduling.k8s.io. It names a version only where
// it serves a kind in it, so that one whose feature gate is off is not among them. Every user that
// is logged in may ask (system:discovery).
Request AskForSchedulingVersions();

// The versions in the body of its answer, an APIGroup: "v1", "v1beta1".
// Errors: kCorrupt or kInvalidArgument where it is no such document.
Result<std::vector<std::string>> ReadServedVersions(std::string_view body);

// The version to speak with a server that serves `served`; null: PodGroups are served in none that
// this program knows. It stays with `current` while that is served.
std::optional<PodGroupVersion> ChoosePodGroups(const std::vector<std::string>& served,
                                               std::optional<PodGroupVersion> current);

}  // namespace lockstep::control::kube
