#include "operator/reconcile/act/native_binding.h"

#include <string>
#include <string_view>

#include "operator/api/conditions.h"
#include "operator/reconcile/act/place_gang.h"
#include "operator/reconcile/build/pod_group.h"
#include "operator/reconcile/gang/gang_binding.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kNativeNotFollowed = "NativeNotFollowed";

bool AsksForNative(const DecisionBuilder& builder) {
  return builder.spec().scheduling.binding == PodBinding::kNative &&
         !builder.observed().is_one_machine;
}

std::string WhatIsMissing(const NativeSight& sight) {
  return std::string(
             "scheduling.binding: Native has kube-scheduler place the gang by a PodGroup "
             "of scheduling.k8s.io/v1alpha2, and ") +
         (sight.is_enabled
              ? "the API server gives this operator no list of them: it has them from Kubernetes "
                "1.36 on, with --runtime-config=scheduling.k8s.io/v1alpha2=true and the feature "
                "gates GenericWorkload and GangScheduling"
              : "this operator was not told to make any: that is nativeBinding.enabled of the "
                "chart (the flag --native-binding)");
}

}  // namespace

bool LacksPodGroups(const DecisionBuilder& builder) {
  return AsksForNative(builder) && !builder.observed().native.is_followed;
}

bool WaitsForPodGroups(DecisionBuilder* builder) {
  if (!LacksPodGroups(*builder)) {
    return false;
  }
  const std::string why = WhatIsMissing(builder->observed().native);
  builder->mutable_status()->claim.reset();
  builder->Set({ConditionType::kScheduled, false, std::string(kNativeNotFollowed), why},
               EventType::kWarning);
  HasWaitedTooLong(why, builder);
  return true;
}

void LeaveToScheduler(DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  status->pod_group = AsksForNative(*builder)
                          ? PodGroupName(builder->job().metadata, status->attempt)
                          : std::string();
}

std::string DescribePlan(const TrainingJobStatus& status) {
  const std::string places = DescribePlaces(status);
  return "attempt " + std::to_string(status.attempt.value()) + ": " +
         (IsPlacedNatively(status)
              ? "there is room for " + places + "; kube-scheduler places them, by PodGroup " +
                    status.pod_group
              : places);
}

void TellScheduler(DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  if (status->placement.empty() || HasEnded(*status)) {
    status->pod_group.clear();
  }
  const NativeSight& sight = builder->observed().native;
  if (!sight.is_followed) {
    return;
  }
  for (const CapacityObject& group : sight.groups) {
    if (group.is_ours && !group.is_deleting && group.name != status->pod_group) {
      builder->Do(
          WriteObject{WriteObject::Kind::kDelete, kube::kPodGroups, group.name, group.uid, ""});
    }
  }
  if (IsPlacedNatively(*status) && FindPodGroup(sight, status->pod_group) == nullptr) {
    TrainingJob decided = builder->job();
    decided.status = *status;
    builder->Do(WriteObject{WriteObject::Kind::kCreate,
                            kube::kPodGroups,
                            status->pod_group,
                            "",
                            DumpJson(PodGroupManifest(decided))});
  }
}

}  // namespace lockstep::control
