#include "trainer-runtime/strategy/replica_set.h"

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "trainer-runtime/engine/testing/fake_device_engine.h"

namespace lockstep::runtime {
namespace {

// Its gradients are the sum of its inputs, scaled, and the dropout seed and the share's place: what
// a strategy has to hand on. A label below zero is a fault.
class SummingEngine final : public Engine {
 public:
  explicit SummingEngine(bool has_slot) : has_slot_(has_slot) {}

  std::string Description() const override { return "sums"; }

  std::vector<TensorView> Tensors() override {
    std::vector<TensorView> views = {{"weight", TensorKind::kParameter, {2}, weight}};
    if (has_slot_) {
      views.push_back({"weight/slot", TensorKind::kOptimizerSlot, {1}, slot});
    }
    return views;
  }

  std::span<float> Gradients() override { return gradients; }

  Status LendGradients(std::span<float> /*memory*/) override { return OkStatus(); }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    gradients = {};
    for (const float input : batch.inputs) {
      gradients[0] += input * static_cast<float>(options.gradient_scale);
    }
    gradients[1] = static_cast<float>(options.dropout_seed);
    gradients[2] = static_cast<float>(options.first_sample);
    thread = std::this_thread::get_id();
    return Evaluate(batch);
  }

  Status ApplyUpdate(int64_t) override { return OkStatus(); }

  Result<StepResult> Evaluate(const Batch& batch) override {
    if (!batch.labels.empty() && batch.labels[0] < 0) {
      return Error(ErrorCode::kInternal, "fault " + std::to_string(batch.labels[0]));
    }
    return StepResult{static_cast<double>(batch.sample_count), 1};
  }

  std::array<float, 2> weight{};
  std::array<float, 1> slot{};
  std::array<float, 3> gradients{};
  std::thread::id thread;

 private:
  bool has_slot_;
};

struct Replicas {
  explicit Replicas(std::size_t count, bool have_others_slots = true, bool are_on_devices = false) {
    std::vector<std::unique_ptr<Engine>> made;
    for (std::size_t i = 0; i < count; ++i) {
      auto engine = std::make_unique<SummingEngine>(i == 0 || have_others_slots);
      engines.push_back(engine.get());
      made.push_back(std::move(engine));
      if (are_on_devices) {
        made.back() = MakeFakeDeviceEngine(std::move(made.back()));
      }
    }
    set = std::make_unique<ReplicaSet>(std::move(made));
  }

  std::vector<SummingEngine*> engines;
  std::unique_ptr<ReplicaSet> set;
};

TEST(ReplicaSet, EachReplicaComputesItsShareOnItsOwnThreadAndTheFirstHoldsTheSum) {
  for (const std::size_t count : {1U, 2U, 3U, 5U}) {
    Replicas replicas(count);
    const std::vector<float> inputs = {1, 2, 3, 4, 5};
    std::vector<ReplicaShare> shares(count);
    for (std::size_t i = 0; i < count; ++i) {
      shares[i] = {{std::span<const float>(inputs).subspan(i, 1), {}, 2}, 10};
    }
    for (int round = 0; round < 3; ++round) {
      const Result<StepResult> sums = replicas.set->ComputeGradients({shares, 0.5, 7});
      ASSERT_TRUE(sums.ok());
      EXPECT_EQ(sums->loss_sum, 2.0 * static_cast<double>(count));
      EXPECT_EQ(sums->correct_count, static_cast<int64_t>(count));
      std::set<std::thread::id> threads;
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(replicas.engines[i]->gradients,
                  (std::array<float, 3>{0.5F * static_cast<float>(i + 1), 7, 10}));
        threads.insert(replicas.engines[i]->thread);
      }
      EXPECT_EQ(threads.size(), count);
      EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
      replicas.set->SumGradients();
      const auto n = static_cast<float>(count);
      EXPECT_EQ(replicas.engines[0]->gradients,
                (std::array<float, 3>{0.25F * n * (n + 1), 7 * n, 10 * n}));
    }
  }
}

TEST(ReplicaSet, FaultOfTheLowestReplicaIsToldAndTheNextStepGoesOn) {
  Replicas replicas(3);
  const std::vector<float> bad = {-1, -2};
  std::vector<ReplicaShare> shares(3);
  shares[1].batch.labels = std::span<const float>(bad).first(1);
  shares[2].batch.labels = std::span<const float>(bad).last(1);
  const Result<StepResult> failed = replicas.set->ComputeGradients({shares, 1, 0});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message(), "fault -1.000000");
  EXPECT_TRUE(replicas.set->ComputeGradients({std::vector<ReplicaShare>(3), 1, 0}).ok());
}

TEST(ReplicaSet, SpreadGivesParametersAndWhereAskedSlots) {
  for (const bool with_slots : {false, true}) {
    Replicas replicas(3);
    replicas.engines[0]->weight = {1, 2};
    replicas.engines[0]->slot = {3};
    ASSERT_TRUE(replicas.set->SpreadTensors(with_slots).ok());
    for (const SummingEngine* engine : replicas.engines) {
      const bool is_first = engine == replicas.engines[0];
      EXPECT_EQ(engine->weight, (std::array<float, 2>{1, 2}));
      EXPECT_EQ(engine->slot[0], is_first || with_slots ? 3 : 0);
    }
  }
}

TEST(ReplicaSet, ReplicasWithoutSlotsTakeParametersOnly) {
  Replicas replicas(2, /*have_others_slots=*/false);
  replicas.engines[0]->weight = {1, 2};
  ASSERT_TRUE(replicas.set->SpreadTensors(/*with_slots=*/true).ok());
  EXPECT_EQ(replicas.engines[1]->weight, (std::array<float, 2>{1, 2}));
}

// On devices all of a state goes back at once: what is not given is what it was.
TEST(ReplicaSet, SpreadReachesDevicesAndLeavesSlotsThere) {
  for (const bool with_slots : {false, true}) {
    Replicas replicas(2, /*have_others_slots=*/true, /*are_on_devices=*/true);
    EXPECT_FALSE(replicas.set->IsInHostMemory());
    replicas.engines[0]->weight = {1, 2};
    replicas.engines[0]->slot = {3};
    replicas.engines[1]->slot = {4};
    ASSERT_TRUE(replicas.set->engine(0).BringToHost(EnginePart::kState).ok());
    ASSERT_TRUE(replicas.set->SpreadTensors(with_slots).ok());
    EXPECT_EQ(replicas.engines[0]->slot[0], 3);
    EXPECT_EQ(replicas.engines[1]->weight, (std::array<float, 2>{1, 2}));
    EXPECT_EQ(replicas.engines[1]->slot[0], with_slots ? 3 : 4);
  }
}

}  // namespace
}  // namespace lockstep::runtime
