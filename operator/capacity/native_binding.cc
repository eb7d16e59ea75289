#include "operator/capacity/native_binding.h"

#include <string>
#include <string_view>

#include "operator/api/status/conditions.h"
#include "operator/capacity/pod_group.h"
#include "operator/reconcile/gang/gang_binding.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kNativeNotFollowed = "NativeNotFollowed";

bool AsksForNative(const DecisionBuilder& builder) {
  return builder.spec().scheduling.binding == PodBinding::kNative &&
         !builder.observed().is_one_machine;
}

// "v1beta1, v1alpha3, v1alpha2".
std::string KnownVersions() {
  std::string text;
  for (const kube::PodGroupVersion version : kube::kPodGroupVersions) {
    text += (text.empty() ? "" : ", ") + std::string(kube::VersionName(version));
  }
  return text;
}

std::string WhyNotFollowed(const NativeSight& sight) {
  if (!sight.is_enabled) {
    return "this operator makes no PodGroups; set nativeBinding.enabled of the chart (the flag "
           "--native-binding)";
  }
  if (!sight.served.trouble.empty()) {
    return "the API server does not say in which versions it serves PodGroups: " +
           sight.served.trouble;
  }
  if (!sight.served.version) {
    return "the API server serves PodGroups in none of the versions " + KnownVersions() +
           ". On Kubernetes 1.37, start the API server with "
           "--runtime-config=scheduling.k8s.io/v1beta1=true and the feature gate GenericWorkload. "
           "On 1.36, use --runtime-config=scheduling.k8s.io/v1alpha2=true and the feature gates "
           "GenericWorkload and GangScheduling. The controller manager and the scheduler need the "
           "same feature gates";
  }
  return "the API server serves " + kube::ApiVersionOf(*sight.served.version) +
         ", but this operator could not list PodGroups. The operator's log says "
         "why. If the operator lacks the right, set nativeBinding.enabled of the chart";
}

std::string WhatIsMissing(const NativeSight& sight) {
  return "with scheduling.binding: Native, kube-scheduler places the gang by a PodGroup of "
         "scheduling.k8s.io, but " +
         WhyNotFollowed(sight);
}

}  // namespace

bool LacksPodGroups(const DecisionBuilder& builder) {
  return AsksForNative(builder) && !builder.observed().native.is_followed;
}

std::optional<CapacityWait> AwaitPodGroups(DecisionBuilder* builder) {
  if (!LacksPodGroups(*builder)) {
    return std::nullopt;
  }
  builder->mutable_waiting()->claim.reset();
  return CapacityWait{std::string(kNativeNotFollowed),
                      WhatIsMissing(builder->observed().native),
                      EventType::kWarning};
}

void LeaveToScheduler(DecisionBuilder* builder) {
  PlacementStatus* const gang = builder->mutable_placement();
  gang->pod_group = AsksForNative(*builder) ? PodGroupName(builder->job().metadata, gang->attempt)
                                            : std::string();
}

std::string DescribePlan(const TrainingJobStatus& status) {
  const std::string places = DescribePlaces(status);
  return "attempt " + std::to_string(status.attempt.value()) + ": " +
         (IsPlacedNatively(status)
              ? "there is room for " + places + "; kube-scheduler places them through PodGroup " +
                    status.pod_group
              : places);
}

void TellScheduler(DecisionBuilder* builder) {
  const TrainingJobStatus& status = builder->status();
  if (status.placement.empty() || HasEnded(status)) {
    builder->mutable_placement()->pod_group.clear();
  }
  const NativeSight& sight = builder->observed().native;
  if (!sight.is_followed || !sight.served.version) {
    return;
  }
  const kube::ResourceType type = kube::PodGroupsIn(*sight.served.version);
  for (const CapacityObject& group : sight.groups) {
    if (group.is_ours && !group.is_deleting && group.name != status.pod_group) {
      builder->Do(WriteObject{WriteObject::Kind::kDelete, type, group.name, group.uid, ""});
    }
  }
  if (IsPlacedNatively(status) && FindPodGroup(sight, status.pod_group) == nullptr) {
    TrainingJob decided = builder->job();
    decided.status = status;
    builder->Do(WriteObject{WriteObject::Kind::kCreate,
                            type,
                            status.pod_group,
                            "",
                            DumpJson(PodGroupManifest(decided, *sight.served.version))});
  }
}

}  // namespace lockstep::control
