#include "trainer-runtime/strategy/lent_replica.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/engine/testing/fake_device_engine.h"

namespace lockstep::runtime {
namespace {

// Two parameters and a slot of each, that can be lent memory or can not.
class MovingEngine final : public Engine {
 public:
  explicit MovingEngine(bool can_move_state) : can_move_state_(can_move_state) {}

  std::string Description() const override { return "moves"; }

  std::vector<TensorView> Tensors() override {
    return {{"a", TensorKind::kParameter, {2}, parameters_.first(2)},
            {"b", TensorKind::kParameter, {1}, parameters_.last(1)},
            {"a/slot", TensorKind::kOptimizerSlot, {2}, slots_.first(2)},
            {"b/slot", TensorKind::kOptimizerSlot, {1}, slots_.last(1)}};
  }

  std::span<float> Gradients() override { return gradients_; }

  Status LendGradients(std::span<float> memory) override {
    gradients_ = memory;
    return OkStatus();
  }

  Status LendState(std::span<float> parameters, std::span<float> slots) override {
    if (!can_move_state_) {
      return Engine::LendState(parameters, slots);
    }
    std::ranges::copy(parameters_, parameters.begin());
    std::ranges::copy(slots_, slots.begin());
    parameters_ = parameters;
    slots_ = slots;
    return OkStatus();
  }

  Result<StepResult> ComputeGradients(const Batch&, const StepOptions&) override {
    return StepResult{};
  }

  Status ApplyUpdate(int64_t) override { return OkStatus(); }

  Result<StepResult> Evaluate(const Batch&) override { return StepResult{}; }

 private:
  bool can_move_state_;
  std::array<float, 3> own_parameters_{1, 2, 3};
  std::array<float, 3> own_gradients_{};
  std::array<float, 3> own_slots_{4, 5, 6};
  std::span<float> parameters_ = own_parameters_;
  std::span<float> gradients_ = own_gradients_;
  std::span<float> slots_ = own_slots_;
};

// A set of one replica, and what it lends.
struct Lender {
  explicit Lender(std::unique_ptr<Engine> engine) {
    std::vector<std::unique_ptr<Engine>> engines;
    engines.push_back(std::move(engine));
    replicas = std::make_unique<ReplicaSet>(std::move(engines));
    memory = LendFirstReplica(replicas.get()).value();
  }

  bool Lends(std::span<const float> values) const {
    const auto* const begin = reinterpret_cast<const float*>(memory->data());
    return values.data() >= begin &&
           values.data() + values.size() <= begin + memory->size() / sizeof(float);
  }

  std::vector<TensorView> tensors() const { return replicas->engine(0).Tensors(); }

  std::unique_ptr<const SharedSegment> memory;  // outlives the replicas
  std::unique_ptr<ReplicaSet> replicas;
};

TEST(LentReplica, GradientsAndStateOfAnEngineInTheHostsMemoryLieThere) {
  const Lender lender(std::make_unique<MovingEngine>(/*can_move_state=*/true));
  EXPECT_TRUE(lender.Lends(lender.replicas->engine(0).Gradients()));
  std::vector<float> values;
  for (const TensorView& tensor : lender.tensors()) {
    EXPECT_TRUE(lender.Lends(tensor.data)) << tensor.name;
    values.insert(values.end(), tensor.data.begin(), tensor.data.end());
  }
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

// All ranks of a host lend as much, or none does: an engine that cannot lends no room for it.
TEST(LentReplica, WhoseStateStaysWithTheEngineLendsGradientsAlone) {
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(std::make_unique<MovingEngine>(/*can_move_state=*/false));
  engines.push_back(MakeFakeDeviceEngine(std::make_unique<MovingEngine>(/*can_move_state=*/true)));
  const Lender moved(std::make_unique<MovingEngine>(/*can_move_state=*/true));
  for (std::unique_ptr<Engine>& engine : engines) {
    const Lender lender(std::move(engine));
    EXPECT_TRUE(lender.Lends(lender.replicas->engine(0).Gradients()));
    EXPECT_LT(lender.memory->size(), moved.memory->size());
    for (const TensorView& tensor : lender.tensors()) {
      EXPECT_FALSE(lender.Lends(tensor.data)) << tensor.name;
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
