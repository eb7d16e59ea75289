#include "trainer-runtime/supervisor/process_succession.h"

#include "common/contract/environment/supervised_place.h"

namespace lockstep::runtime {

ProcessSuccession::ProcessSuccession(int process_count, bool may_restart)
    : may_restart_(may_restart), starts_(static_cast<std::size_t>(process_count)) {}

int ProcessSuccession::CountStart(int local_rank) {
  return starts_[static_cast<std::size_t>(local_rank)]++;
}

bool ProcessSuccession::WantsAgain(const SupervisorEvent& ended, Step newest) {
  const bool helps = !last_loss_.has_value() || newest > *last_loss_;
  if (!may_restart_ || ended.signal == 0 || !helps ||
      starts_[static_cast<std::size_t>(ended.local_rank)] >= kStartsPerPodMax) {
    return false;
  }
  last_loss_ = newest;
  return true;
}

}  // namespace lockstep::runtime
