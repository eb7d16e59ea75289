#pragma once

#include <functional>
#include <memory>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/replica_set.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

using EngineMaker = std::function<Result<std::unique_ptr<Engine>>(const TrainingSpec&)>;

// The replicas of one process, as many as the spec says, with engines that `make` makes. Where the
// variables are central, only the first engine has an optimizer with a state. Errors: those of
// `make`.
Result<std::unique_ptr<ReplicaSet>> MakeReplicas(const TrainingSpec& spec, const EngineMaker& make);

// What of the gradients is summed over ranks in one call, in order. Equal on every rank of a job.
BucketPlans PlanBuckets(const TrainingSpec& spec, ReplicaSet* replicas);

// The spec's strategy over them. Where ranks train a model each it is a rank's own, which sums over
// its replicas alone: its steps are given a reducer of one rank. `replicas` must outlive it.
std::unique_ptr<Strategy> MakeStrategy(const TrainingSpec& spec, ReplicaSet* replicas);

}  // namespace lockstep::runtime
