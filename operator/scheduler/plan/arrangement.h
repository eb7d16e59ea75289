#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "operator/scheduler/plan/plan.h"
#include "operator/scheduler/plan/room.h"

namespace lockstep::control {

// The gang's classes as they are searched for: those that ask for the same are one, so that there
// is less to try; empty ones are left out; large requests come first, because small ones fit around
// them.
std::vector<PodClass> MergedClasses(const Gang& gang, bool is_one_machine);

struct ArrangeResult {
  std::optional<std::vector<Fill>> fills;  // one for each class, over the same rooms
  bool reached_limit = false;              // without fills: one may exist all the same
};

// Finds room for all classes at once: each in turn in its packing order, and where that fails by
// trying every arrangement, at most `steps_max` steps long.
// Precondition: each room stands for one node, and no class is empty.
ArrangeResult Arrange(const std::vector<PodClass>& classes,
                      const std::vector<NodeRoom>& rooms,
                      int64_t steps_max);

}  // namespace lockstep::control
