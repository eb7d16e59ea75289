#include "operator/api/defaults.h"

#include <algorithm>

namespace lockstep::control {

void Default(TrainingJob* job) {
  for (RoleSpec& role : job->spec.roles) {
    if (role.processes == 0) {
      role.processes = job->spec.training ? 1 : std::max<int64_t>(role.gpus, 1);
    }
  }
}

}  // namespace lockstep::control
