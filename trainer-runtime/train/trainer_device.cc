#include <optional>
#include <string>

#include "trainer-runtime/train/trainer.h"

// What a trainer leaves to engines on a device, and hears of them.

namespace lockstep::runtime {

// An update that the device may take with the step itself, so that there is one wait in it: where
// nobody else has a part in the gradients or in the decision, which is the same, MayTake()'s.
std::optional<GuardedUpdate> Trainer::UpdateAhead(const RankControl& control) const {
  if (control.world_size() > 1) {
    return std::nullopt;
  }
  return GuardedUpdate{.number = state_.updates() + 1,
                       .norm_max = spec_.gradient_clip_norm,
                       .needs_finite = spec_.terminate_on_nan};
}

// Once each; in most steps there is none.
void Trainer::LogNotices() {
  ReplicaSet& replicas = parts_.strategy->replicas();
  for (int replica = 0; replica < replicas.count(); ++replica) {
    while (const std::optional<std::string> notice = replicas.engine(replica).TakeNotice()) {
      parts_.logger->Info("the numeric engine says", {{"replica", replica}, {"words", *notice}});
    }
  }
}

}  // namespace lockstep::runtime
