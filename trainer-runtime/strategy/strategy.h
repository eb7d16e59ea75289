#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/strategy/replica_set.h"

namespace lockstep::runtime {

// What a step has come to on this rank. Units: durations are of this rank.
struct StepOutcome {
  StepResult sums;  // over the shares of this rank's replicas
  // They are over all replicas of all ranks: loss, hits and overflows went with the gradients and
  // not with the totals, which were asked for before and have none of them.
  bool are_sums_of_all = false;
  // The update that was asked for was the device's to take: sums.is_updated says whether it did,
  // and nobody clips or applies any more.
  bool is_guarded = false;
  Duration compute{0};   // of the gradients
  Duration exchange{0};  // of the sums over replicas and ranks, as far as they came after it
};

// How a step's sums go over the ranks.
struct StepExchange {
  GradientReducer* reducer = nullptr;
  Deadline deadline;
  // What is to be summed with the gradients, in place, given the sums over this rank's shares, or
  // nothing where those are summed on their devices; its memory must last until the step is over.
  // Empty: nothing is.
  std::function<std::span<double>(const StepResult&)> totals = {};
};

// How the replicas of a job share one model: where its variables are, and how the replicas'
// gradients become one update of it. One object for the job's whole time; the ranks that it sums
// over come with each step, as they may be others after a loss.
//
// Replicas scale their gradients by 1 / samples of the global batch before the sums, so that any
// number of replicas on one global batch takes the step that one replica would take on it.
//
// The state does not tell the strategy: one checkpoint fits all.
// Thread: the training thread only.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The engines that compute. They hold the newest parameters after Apply() and AdoptState().
  virtual ReplicaSet& replicas() = 0;

  // Computes the gradients of the shares and sums them over all replicas of all ranks, and the
  // totals too. The state is unchanged, but for an update that `step` has, of the only rank, where
  // the outcome says that the device took it: then the gradients are gone. Errors: those of Engine
  // and GradientReducer; Apply must not follow then, and nobody uses gradients or totals any more.
  virtual Result<StepOutcome> Step(const ReplicaStep& step, const StepExchange& exchange) = 0;

  // What the last Step came to: the gradients that Apply is about to take, equal on all ranks.
  // Valid until the next Step. Errors: those of Engine.
  virtual Result<std::span<const float>> ReadGradients() = 0;

  // Whether they are finite numbers. Errors: those of Engine.
  virtual Result<bool> AreGradientsFinite() = 0;

  // As ClipGradients (gradient_clip.h) does to them, wherever they are. Errors: those of Engine.
  virtual Status ClipGradients(double norm_max) = 0;

  // Updates the state by the last Step. `update_number` counts from 1. Errors: those of Engine.
  virtual Status Apply(int64_t update_number) = 0;

  // The state: parameters and slots under their canonical names, as the host has them. They are the
  // newest after ReadState().
  virtual std::vector<TensorView> TakeState() = 0;

  // Makes the values of TakeState() those that Apply has come to. Errors: those of Engine.
  virtual Status ReadState() = 0;

  // Makes all values of TakeState() the state that all replicas have. Errors: those of Engine.
  virtual Status AdoptState() = 0;
};

}  // namespace lockstep::runtime
