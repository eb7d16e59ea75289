#include "operator/api/job/placement.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

TaskId TaskOf(const PodPlacement& placement) {
  return {placement.role, static_cast<int>(placement.index)};
}

const PodPlacement* FindPlacement(const PlacementStatus& status, const TaskId& task) {
  const auto found = std::find_if(status.placement.begin(),
                                  status.placement.end(),
                                  [&](const auto& placement) { return TaskOf(placement) == task; });
  return found == status.placement.end() ? nullptr : &*found;
}

PodPlacement* FindPlacement(PlacementStatus* status, const TaskId& task) {
  return const_cast<PodPlacement*>(FindPlacement(std::as_const(*status), task));
}

}  // namespace lockstep::control
