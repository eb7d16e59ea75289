#pragma once

#include <optional>
#include <vector>

#include "common/base/strong_id.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

// Which processes of a pod that are lost get a successor beside the others, who run on.
class ProcessSuccession {
 public:
  ProcessSuccession(int process_count, bool may_restart);

  // The number of the start of `local_rank` that is about to come, from 0.
  int CountStart(int local_rank);

  // Whether the process that ended gets one. Only what a signal ended: a process that ends itself
  // has its reasons, and says them. `newest` is the newest step that a process of the pod has
  // completed: a second loss without one in between shows that another try here does not help.
  bool WantsAgain(const SupervisorEvent& ended, Step newest);

 private:
  bool may_restart_;
  std::vector<int> starts_;        // by local rank
  std::optional<Step> last_loss_;  // the newest step when a process was lost last
};

}  // namespace lockstep::runtime
