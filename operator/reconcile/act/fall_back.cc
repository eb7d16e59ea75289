#include "operator/reconcile/act/fall_back.h"

#include "operator/reconcile/build/lasting_checkpoints.h"

namespace lockstep::control {

void TellOfFallBack(const JobProgress& known, const JobProgress& next, DecisionBuilder* builder) {
  if (!builder->is_training() || next.step + 1 >= known.step) {
    return;
  }
  std::string why = WhyCheckpointsGo(builder->job(), builder->observed());
  if (!why.empty()) {
    why = "nobody who had its state is left, and " + why + ", so checkpoints went with their pods";
  } else if (next.step == 0) {
    why = "nobody who had its state is left, and no checkpoint was found";
  } else {
    why = "nobody who had its state is left, and that is the newest checkpoint found";
  }
  builder->Say(EventType::kWarning,
               "ProgressLost",
               "training goes on at step " + std::to_string(next.step) + " and not at step " +
                   std::to_string(known.step) + ": " + why);
}

}  // namespace lockstep::control
