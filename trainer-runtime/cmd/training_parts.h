#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/collectives/nccl/nccl_agreement.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/strategy/replica_set.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

// What has to be loaded before the first step and does not depend on the other ranks.
struct TrainingParts {
  // Where the first replica's gradients are, and its state, if ranks of this host sum theirs with
  // them. Outlives the engine and every communicator. Null: the engine keeps its own.
  std::unique_ptr<const SharedSegment> lent;
  std::optional<Error> not_lent;  // why it does, where that costs time
  std::unique_ptr<ReplicaSet> replicas;
  std::unique_ptr<Strategy> strategy;  // over the replicas
  DatasetSplits data;
  // What this rank brings to NCCL. Null: the job sums no gradients over ranks, or by the CPU only.
  std::optional<NcclOffer> nccl;
};

// How they are loaded, beside the spec.
struct LoadingOptions {
  std::string engine_path;      // the plug-in; empty: searched beside the executable and as usual
  bool nccl_may_block = false;  // see NcclMayBlock
};

// Loads the engine plug-in and the data set. Takes a quarter of a second, most of it for LibTorch's
// libraries, so it runs beside the rendezvous. Of ranks that train a model each the spec is the
// rank's own, and so are the samples. Errors: kNotFound (the message says which packages
// to install, or that what the job sums gradients with is not there), those of LoadDataset.
Result<TrainingParts> LoadTrainingParts(const TrainingSpec& spec,
                                        const WorkerEnvironment& environment,
                                        const LoadingOptions& options);

// Whether a variable of NCCL's own would make it wait for other ranks in calls that nobody can end.
bool NcclMayBlock(const EnvironmentMap& variables);

// The spec, unless the job insists on NCCL, and that may block. Errors: kInvalidArgument (names the
// variable).
Result<TrainingSpec> CheckNcclVariables(TrainingSpec spec, const EnvironmentMap& variables);

}  // namespace lockstep::runtime
