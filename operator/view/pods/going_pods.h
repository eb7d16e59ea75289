#pragma once

#include <chrono>

#include "operator/kubeclient/kube/item.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/view/stored/stored_job.h"

namespace lockstep::control {

// A pod that is to go and that nobody has asked to so long after is stuck: a webhook refuses that,
// or the garbage collector is held up. Choice: both ask within seconds, and the verdict on a pod
// that was replaced is awaited no longer than kVerdictPatience.
inline constexpr std::chrono::seconds kUnaskedAfter{30};

// Whether what the pod holds comes free without anybody else having to go: its deletion was asked
// for, or is bound to be. It may get stuck all the same (OverdueAt, kUnaskedAfter).
//
// `job`: of the name that the pod carries, null where there is none. `is_served`: of the pod's
// namespace; of another's jobs it is not known which there are. `has_place`: a place of the job is
// promised to a pod of this very name.
struct PodStand {
  const kube::Item<StoredJob>* job = nullptr;
  bool is_served = true;
  bool has_place = false;
};

bool IsGoing(const kube::Pod& pod, const PodStand& stand);

}  // namespace lockstep::control
