// The strategies of processes that drive several GPUs each, whose gradients NCCL sums where they
// are, beside backward: over the doubles of NCCL and driver, and of an engine on each GPU.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"
#include "trainer-runtime/engine/backward_progress.h"
#include "trainer-runtime/strategy/central_storage.h"
#include "trainer-runtime/strategy/multi_worker_mirrored.h"
#include "trainer-runtime/strategy/testing/fake_gpu_engine.h"

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kCount = 6;
constexpr int kDevices = 2;
constexpr int kSteps = 20;

// Makes six gradients, two at a time from the last to the first, all of them its first label, and
// adds them to its weights. Whole numbers: every order of additions gives the same.
class AddingEngine final : public Engine {
 public:
  std::string Description() const override { return "adds"; }

  std::vector<TensorView> Tensors() override {
    return {{"weight", TensorKind::kParameter, {kCount}, weights_}};
  }

  std::span<float> Gradients() override { return gradients_; }

  Status LendGradients(std::span<float> /*memory*/) override { return OkStatus(); }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    BackwardProgress progress = ProgressOnHost(options, kCount);
    for (std::size_t offset = kCount; offset > 0;) {
      offset -= 2;
      gradients_[offset] = gradients_[offset + 1] = batch.labels[0];
      progress.ReadyFrom(static_cast<int64_t>(offset));
    }
    return StepResult{batch.labels[0], 1};
  }

  Status ApplyUpdate(int64_t /*update_number*/) override {
    for (std::size_t i = 0; i < kCount; ++i) {
      weights_[i] += gradients_[i];
    }
    return OkStatus();
  }

  Result<StepResult> Evaluate(const Batch& /*batch*/) override { return StepResult{}; }

 private:
  std::array<float, kCount> weights_{};
  std::array<float, kCount> gradients_{};
};

enum class Kind { kMirrored, kCentral };

// One process: an engine on each of its GPUs, and a strategy over them.
struct Process {
  Result<std::string> Train(Kind kind,
                            FakeTelling telling,
                            Communicator& control,
                            GradientReducer& reducer) {
    std::vector<std::unique_ptr<Engine>> engines;
    for (int device = 0; device < kDevices; ++device) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          std::unique_ptr<Engine> engine,
          MakeFakeGpuEngine(std::make_unique<AddingEngine>(), device, FakeCudaFile(), telling));
      engines.push_back(std::move(engine));
    }
    ReplicaSet replicas(std::move(engines));
    const BucketPlans plans{{{3, 3}, {1, 2}, {0, 1}}, {{0, 6}}};
    std::unique_ptr<Strategy> strategy;
    if (kind == Kind::kMirrored) {
      strategy = std::make_unique<MultiWorkerMirrored>(&replicas, plans);
    } else {
      strategy = std::make_unique<CentralStorage>(&replicas, plans);
    }
    if (replicas.Devices() != std::vector<int>{0, 1}) {
      return std::string("not on two GPUs");
    }
    LOCKSTEP_RETURN_IF_ERROR(strategy->ReadState());
    LOCKSTEP_RETURN_IF_ERROR(strategy->AdoptState());
    return Steps(control, reducer, &replicas, strategy.get());
  }

  // Replica i of all has the label i + 1 + step.
  static Result<std::string> Steps(Communicator& control,
                                   GradientReducer& reducer,
                                   ReplicaSet* replicas,
                                   Strategy* strategy) {
    const int replica_count = control.world_size() * kDevices;
    float expected = 0;
    for (int step = 0; step < kSteps; ++step) {
      std::array<float, kDevices> labels{};
      std::vector<ReplicaShare> shares;
      for (int i = 0; i < kDevices; ++i) {
        float& label = labels[static_cast<std::size_t>(i)];
        label = static_cast<float>(control.rank() * kDevices + i + 1 + step);
        shares.push_back({{{}, {&label, 1}, 1}, 0});
      }
      const double sum = replica_count * (replica_count + 1) / 2.0 + replica_count * step;
      expected += static_cast<float>(sum);
      const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::minutes(15));
      LOCKSTEP_ASSIGN_OR_RETURN(const StepOutcome outcome,
                                strategy->Step({shares}, {&reducer, deadline}));
      if (outcome.sums.loss_sum != sum || outcome.sums.correct_count != replica_count ||
          outcome.sums.gradient_length != std::sqrt(kCount * sum * sum) ||
          !outcome.are_sums_of_all) {
        return std::string("a loss of " + std::to_string(outcome.sums.loss_sum) + " of " +
                           std::to_string(sum) + ", gradients as long as " +
                           std::to_string(outcome.sums.gradient_length));
      }
      LOCKSTEP_ASSIGN_OR_RETURN(const bool are_finite, strategy->AreGradientsFinite());
      if (!are_finite) {
        return std::string("gradients that nobody has made");
      }
      LOCKSTEP_RETURN_IF_ERROR(strategy->Apply(step + 1));
    }
    for (int replica = 0; replica < kDevices; ++replica) {
      LOCKSTEP_RETURN_IF_ERROR(replicas->engine(replica).BringToHost(EnginePart::kState));
      for (const float weight : replicas->engine(replica).Tensors().front().data) {
        if (weight != expected) {
          return std::string("replica " + std::to_string(replica) + ": found " +
                             std::to_string(weight) + ", expected " + std::to_string(expected));
        }
      }
    }
    return std::string("equal");
  }
};

std::vector<NcclRankEnd> RunTraining(Kind kind,
                                     const NcclGangOptions& options,
                                     FakeTelling telling = FakeTelling::kAtOnce) {
  return RunNcclGang(options, [=](Communicator& control, GradientReducer& reducer, NcclGround&) {
    return Process().Train(kind, telling, control, reducer);
  });
}

NcclGangOptions Gang(int world_size, const std::string& fault = "") {
  NcclGangOptions options;
  options.world_size = world_size;
  options.device_count = kDevices;
  options.fault = fault;
  return options;
}

// Whether the host has a step's buckets one by one, or all at once when the devices have only just
// been given the step.
TEST(NcclStrategy, ReplicasOfAllProcessesTakeTheSameStep) {
  for (const Kind kind : {Kind::kMirrored, Kind::kCentral}) {
    for (const int world_size : {1, 2}) {
      for (const FakeTelling telling : {FakeTelling::kAsTheyAreMade, FakeTelling::kAtOnce}) {
        for (const NcclRankEnd& end : RunTraining(kind, Gang(world_size), telling)) {
          EXPECT_EQ(end.text, "equal") << world_size;
        }
      }
    }
  }
}

// Three buckets a step, and its sums: in the midst of the second step's.
TEST(NcclStrategy, ProcessThatDiesInMidCallIsNamedByTheOther) {
  const auto ends = RunTraining(Kind::kMirrored, Gang(2, "die@rank=3@call=6"));
  EXPECT_TRUE(ends[1].is_dead);
  EXPECT_EQ(ends[0].code, static_cast<int>(ErrorCode::kPeerLost));
  EXPECT_THAT(ends[0].text,
              AllOf(StartsWith("rank 0: all_reduce sum of "),
                    HasSubstr(" bytes), epoch 3, call "),
                    HasSubstr("with NCCL on GPU-"),
                    HasSubstr("rank 1 is lost: "),
                    HasSubstr(", after ")));
}

TEST(NcclStrategy, SumThatFailsOnOneGpuNamesIt) {
  const auto ends = RunTraining(Kind::kMirrored, Gang(2, "async-error@rank=1@call=5"));
  EXPECT_THAT(ends[0].text, HasSubstr("NCCL says on GPU-0001"));
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.code, static_cast<int>(ErrorCode::kPeerLost));
    EXPECT_THAT(end.text, HasSubstr("ordered: the connection to a peer broke"));
  }
}

}  // namespace
}  // namespace lockstep::runtime
