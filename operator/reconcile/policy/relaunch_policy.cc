#include "operator/reconcile/policy/relaunch_policy.h"

#include "operator/api/recovery_rules.h"

namespace lockstep::control {

bool MayRelaunch(const TrainingJobSpec& spec) {
  return spec.recovery.relaunch && WhyNoRelaunch(spec).empty();
}

bool HoldsItsEnd(const TrainingJobSpec& spec, Role role) {
  return IsRank(role) && MayRelaunch(spec);
}

}  // namespace lockstep::control
