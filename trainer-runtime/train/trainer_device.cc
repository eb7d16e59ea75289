#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
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

// What each replica's engine takes to its device while that computes: its share of the batch that
// follows, which the first to ask loads for all. An engine in the host's memory has nothing to
// gain, and is not asked. Called while this thread is in the step, so the cursor stands still.
std::function<std::optional<Batch>(int replica)> Trainer::BatchesAhead(
    const ReplicaRange& replicas) {
  struct Ahead {
    std::once_flag once;
    std::optional<LoadedBatch> batch;
  };

  if (parts_.strategy->replicas().IsInHostMemory()) {
    return {};
  }
  return [this, replicas, ahead = std::make_shared<Ahead>()](int replica) -> std::optional<Batch> {
    std::call_once(ahead->once, [&] {
      ahead->batch = loader_.LoadAhead(Advance(loader_.plan(), state_.cursor), replicas);
    });
    if (!ahead->batch.has_value()) {
      return std::nullopt;
    }
    const LoadedShare& share = ahead->batch->shares[static_cast<std::size_t>(replica)];
    return Batch{share.inputs, share.labels, share.sample_count};
  };
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
