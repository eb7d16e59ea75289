#include "operator/api/job/defaults.h"

#include <algorithm>

#include "common/contract/environment/role.h"

namespace lockstep::control {

void Default(TrainingJob* job) {
  for (RoleSpec& role : job->spec.roles) {
    if (role.processes == 0) {
      const bool is_one = job->spec.training || !IsRank(role.name);
      role.processes = is_one ? 1 : std::max<int64_t>(role.gpus, 1);
    }
  }
}

}  // namespace lockstep::control
