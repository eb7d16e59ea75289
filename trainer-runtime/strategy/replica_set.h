#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// One replica's share of a global batch.
struct ReplicaShare {
  Batch batch;
  int64_t first_sample = 0;  // where the share starts within the global batch
};

// A step as the replicas of one process see it.
struct ReplicaStep {
  std::span<const ReplicaShare> shares;  // [replicas], in their order
  double gradient_scale = 1;             // as in StepOptions
  uint64_t dropout_seed = 0;             // as in StepOptions
  // As in StepOptions, of each replica on its thread.
  std::function<void(int replica, int64_t offset, int64_t count, void* made)> on_ready = {};
  std::span<const int64_t> ready_at = {};
  double loss_scale = 1;        // as in StepOptions
  bool stay_on_device = false;  // the gradients are not brought to the host
  // As in StepOptions: of a process's only replica, which stays on its device.
  std::optional<GuardedUpdate> update = {};
  bool is_awaited = true;  // as in StepOptions
  // As in StepOptions, of each replica on its thread.
  std::function<std::optional<Batch>(int replica)> next = {};
  bool is_prefetched = false;  // of all shares
};

// The engines of one process, all of one model, each with a thread of its own. Lives as long as the
// process's part in the job, from meeting to meeting.
//
// Sums over replicas are made in their order, so bits are equal from run to run.
// Thread: one; it is that of the first replica.
class ReplicaSet {
 public:
  // Preconditions (checked): at least one engine, all with equally many gradients.
  explicit ReplicaSet(std::vector<std::unique_ptr<Engine>> engines);

  ~ReplicaSet();

  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;

  int count() const { return static_cast<int>(engines_.size()); }

  Engine& engine(int replica) { return *engines_[static_cast<std::size_t>(replica)]; }

  // Engine::LendGradients of the first replica, whose gradients are what is summed over ranks.
  Status LendGradients(std::span<float> memory);

  // Engine::LendState of the first replica, whose state is what ranks give each other.
  Status LendState(std::span<float> parameters, std::span<float> slots) {
    return engine(0).LendState(parameters, slots);
  }

  // Calls `work` with each replica's number, all at once, each on its replica's thread. Returns
  // when all have ended. Errors: that of the lowest replica that has one.
  Status ForEach(const std::function<Status(int)>& work);

  // Whether all replicas compute in the host's memory, so that gradients can be read as they are
  // made.
  bool IsInHostMemory() const { return is_in_host_memory_; }

  // Where the replicas compute, by CUDA's numbers, in their order; empty unless all do so on GPUs.
  std::vector<int> Devices();

  // Each replica computes the gradients of its share and, unless they stay where they are, brings
  // them to the host. Returns the sums over all shares. Errors: those of Engine. Precondition
  // (checked): as many shares as replicas.
  Result<StepResult> ComputeGradients(const ReplicaStep& step);

  // Engine::GradientBuffer as that replica's thread found it when it began the newest
  // ComputeGradients: an engine is its thread's. Thread: whoever knows that the replica has begun.
  const EngineBuffer& gradient_buffer(int replica) const {
    return buffers_[static_cast<std::size_t>(replica)];
  }

  // Engine::Sums of that replica, as gradient_buffer().
  const DeviceSums& sums(int replica) const { return sums_[static_cast<std::size_t>(replica)]; }

  // Adds the gradients of all replicas up, into those of the first: on the host.
  void SumGradients();

  // The same for elements [offset, offset + count), on the calling thread. Precondition: they are
  // ready on all replicas. Thread: any, one at a time for each element.
  void SumGradients(std::size_t offset, std::size_t count);

  // Gives all replicas what the first one's tensors are on the host: parameters, and slots where
  // `with_slots`; all have them on their devices then. Errors: those of Engine.
  Status SpreadTensors(bool with_slots);

 private:
  void WorkAs(int replica);

  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::span<float>> gradients_;  // of each engine
  std::vector<EngineBuffer> buffers_;        // of each engine, see gradient_buffer
  std::vector<DeviceSums> sums_;             // of each engine
  bool is_in_host_memory_ = true;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  const std::function<Status(int)>* work_ = nullptr;  // of the round; null: the threads end
  uint64_t round_ = 0;                                // calls of ForEach so far
  int busy_count_ = 0;                                // threads that are not done with the round
  std::vector<Status> outcomes_;                      // [replicas], of the round

  std::vector<std::jthread> threads_;  // of all replicas but the first; last: they end first
};

}  // namespace lockstep::runtime
