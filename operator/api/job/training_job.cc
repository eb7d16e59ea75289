#include "operator/api/job/training_job.h"

#include "common/base/value_members.h"
#include "operator/api/job/job_names.h"

namespace lockstep::control {

LOCKSTEP_DEFINE_VALUE_MEMBERS(RoleSpec);
LOCKSTEP_DEFINE_VALUE_MEMBERS(TrainingJobSpec);
LOCKSTEP_DEFINE_VALUE_MEMBERS(TrainingJobStatus);
LOCKSTEP_DEFINE_VALUE_MEMBERS(TrainingJob);

const RoleSpec* TrainingJob::FindRole(Role name) const {
  for (const RoleSpec& role : spec.roles) {
    if (role.name == name) {
      return &role;
    }
  }
  return nullptr;
}

int64_t TrainingJob::RankPodCount() const {
  int64_t count = 0;
  for (const RoleSpec& role : spec.roles) {
    count += IsRank(role.name) ? role.replicas : 0;
  }
  return count;
}

int64_t TrainingJob::WorldSize() const {
  int64_t count = 0;
  for (const RoleSpec& role : spec.roles) {
    count += IsRank(role.name) ? role.replicas * role.processes : 0;
  }
  return count;
}

std::string_view StrategyName(Strategy strategy) {
  return NameOf(kStrategyNames, strategy);
}

std::string_view RestartPolicyName(RestartPolicy policy) {
  return NameOf(kRestartPolicyNames, policy);
}

std::string_view CleanPodPolicyName(CleanPodPolicy policy) {
  return NameOf(kCleanPodPolicyNames, policy);
}

std::string_view SuccessPolicyName(SuccessPolicy policy) {
  return NameOf(kSuccessPolicyNames, policy);
}

std::string_view PodBindingName(PodBinding binding) {
  return NameOf(kPodBindingNames, binding);
}

std::string_view ConditionTypeName(ConditionType type) {
  return NameOf(kConditionTypeNames, type);
}

}  // namespace lockstep::control
