#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/log.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/strategy/make_strategy.h"
#include "trainer-runtime/strategy/replica_set.h"
#include "trainer-runtime/strategy/strategy.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {

// Trainers of one job side by side in a test, each on its thread with a real communicator.

struct GangParts {
  EngineMaker make_engine;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;
  std::function<std::unique_ptr<Logger>()> make_logger = MakeNullLogger;
};

// One rank: what survives from meeting to meeting.
struct GangRank {
  GangRank(const TrainingSpec& spec,
           const GangParts& parts,
           CheckpointStore* checkpoints = nullptr);

  std::unique_ptr<const SharedSegment> lent;  // the first replica's gradients and state
  Engine* engine;                             // the first replica's
  std::unique_ptr<ReplicaSet> replicas;
  std::unique_ptr<Strategy> strategy;
  std::size_t bucket_count = 0;  // of a step
  std::unique_ptr<Logger> logger;
  std::vector<double> losses;  // of each step, by the global batch
  int checkpoints_failed = 0;
  std::function<void(const StepReport&)> after_step;
  std::optional<Trainer> trainer;
  std::atomic<bool> is_stop_requested{false};
  int calls_left = std::numeric_limits<int>::max();  // collective calls until this rank dies
  std::optional<int64_t> bytes_left;  // sent until this rank dies, wherever in a call that is
  std::optional<Result<TrainerVerdict>> verdict;
};

using Gang = std::vector<std::unique_ptr<GangRank>>;

Gang MakeGang(int count, const TrainingSpec& spec, const GangParts& parts);

// How the ranks of a test reach each other: as those of one host, or as each on a host of its own,
// where sums are made beside backward.
enum class GangHosts { kOne, kMany };

// Lets all ranks meet and train until every one has a verdict. A rank's communicator, and with it
// its links, ends with its part: to the others it is dead then.
void RunMeeting(const Gang& gang, Epoch epoch, GangHosts hosts = GangHosts::kOne);

// Expects that every rank ended so.
void ExpectAll(const Gang& gang, TrainerVerdict verdict);

// All parameters and optimizer slots.
std::vector<float> Weights(Engine* engine);

}  // namespace lockstep::runtime
