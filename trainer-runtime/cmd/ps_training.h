#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/cmd/ps_epochs.h"
#include "trainer-runtime/cmd/ps_shares.h"
#include "trainer-runtime/cmd/training_observer.h"
#include "trainer-runtime/ps/ps_client.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {

// The addresses of the job's ps, by number; empty: it has none.
std::vector<std::string> PsAddresses(const WorkerEnvironment& environment);

// The smallest piece that a variable is cut into for the ps. Source: the 256 KiB of TensorFlow's
// MinSizePartitioner, as its guide recommends it.
inline constexpr int64_t kPsPieceBytesMin = 256 * 1024;

struct PsTrainingOptions {
  WorkerEnvironment environment;
  TrainingSpec spec;
  std::string job_key;
  std::stop_token stop;
  Logger* logger = nullptr;  // outlives this; required
};

// A worker's part in a job whose model is on parameter servers, up to the moment at which all
// updates are made. The workers do not meet before: what becomes of one reaches the others through
// the shards only. Rank 0 seeds the shards with the checkpoint or the seed's state. At a gate,
// where all updates up to one are made, it reads the state, counts the samples and saves. What each
// data epoch came to it tells from what all workers' pushes say, once all are there.
//
// Updates have here the numbers of their steps, as everywhere in a trainer. The shards number them
// for the optimizer, without the steps that changed nothing in a training in Float16 before.
// Thread: the training thread.
class PsTraining {
 public:
  // `trainer` and `observer` outlive it.
  PsTraining(PsTrainingOptions options, Trainer* trainer, TrainingObserver* observer);

  // kFinished: all updates are made; rank 0's trainer holds the state. kDiverged: as of Trainer.
  // kInexact: the shards did not count what the workers' shares are. Errors: those of PsClient,
  // Communicator, Engine and of the checkpoints; kInternal (seeded by two states).
  Result<TrainerVerdict> Run();

 private:
  // An update, and where in the data its samples begin.
  struct UpdatePlace {
    int64_t update = 0;
    DataCursor cursor;
  };

  Result<TrainerVerdict> Train(GradientReducer* alone);
  Status Begin();
  Result<PulledCounts> AwaitSeeded();
  Status SeedShards();
  Result<TrainerVerdict> TrainShares(GradientReducer* alone);
  Result<TrainerVerdict> AwaitTheOthers();
  Status TrainShare(int64_t share, GradientReducer* alone);
  Status ReachGate();
  Status CheckCounts(const PulledCounts& counts);
  EpochSums SumsAtGate(const ShardFacts& facts) const;
  EpochSums SumsOf(int64_t data_epoch, const ShardFacts& facts) const;
  void TellDataEpochs(const ShardFacts& facts);
  UpdatePlace NextDataEpoch(UpdatePlace place) const;
  void MoveTo(int64_t update, UpdatePlace* place) const;

  bool IsChief() const { return rank_ == 0; }

  // For what waits for other workers, and for what is answered at once.
  PsLimits WhileOthersWork() const;
  PsLimits Soon() const;

  PsTrainingOptions options_;
  Trainer* trainer_;
  TrainingObserver* observer_;
  int rank_;
  ShareDeal deal_;
  std::unique_ptr<PsClient> client_;
  std::vector<float> parameters_;
  int64_t skipped_ = 0;  // steps, all before deal_.start, that the shards do not number
  int64_t end_ = 0;      // the last update
  int64_t gate_ = 0;     // that is known to be open
  int64_t shares_done_ = 0;
  EpochSums sums_at_start_;
  DataCursor start_;      // of the update after deal_.start
  UpdatePlace own_next_;  // this rank's
  UpdatePlace all_next_;  // the job's, as this rank knows it
  // Of rank 0: the data epoch to be told next, and the samples of each that were used before it
  // came.
  UpdatePlace to_tell_;
  std::map<int64_t, int64_t> used_before_;
  bool is_inexact_ = false;
  EpochSums own_;  // this rank's, of its newest data epoch
};

}  // namespace lockstep::runtime
