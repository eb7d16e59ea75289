// Ranks with peers whose gradients NCCL sums where they are: each waits once a step, comes to the
// bits of ranks that sum by the CPU, and takes a step whole or not at all. Over the doubles of NCCL
// and driver.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"
#include "trainer-runtime/engine/backward_progress.h"
#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/strategy/state_digest.h"
#include "trainer-runtime/strategy/testing/fake_gpu_engine.h"
#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"
#include "trainer-runtime/train/testing/counted_engine.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kSteps = 12;
// A bucket and its sums.
constexpr int kSumsOfAStep = 2;

TrainingSpec SpecOf(Precision precision) {
  TrainingSpec spec = MakeSpec(kSteps);
  spec.precision = precision;
  spec.optimizer = SgdOptimizer{.learning_rate = 0.3, .momentum = 0.9};
  spec.communication.bytes_per_pack = 1 << 20;
  return spec;
}

// Makes one gradient infinite in its `bad_call`-th step.
class BadEngine final : public Engine {
 public:
  BadEngine(std::unique_ptr<Engine> inner, int bad_call, bool is_overflow)
      : inner_(std::move(inner)), calls_left_(bad_call), is_overflow_(is_overflow) {}

  std::string Description() const override { return inner_->Description(); }

  std::vector<TensorView> Tensors() override { return inner_->Tensors(); }

  std::span<float> Gradients() override { return inner_->Gradients(); }

  Status LendGradients(std::span<float> memory) override { return inner_->LendGradients(memory); }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    StepOptions later = options;
    later.on_ready = {};
    Result<StepResult> result = inner_->ComputeGradients(batch, later);
    if (--calls_left_ == 0) {
      Gradients().front() = std::numeric_limits<float>::infinity();
      result->overflow_count = is_overflow_ ? 1 : 0;
    }
    ProgressOnHost(options, static_cast<int64_t>(Gradients().size())).ReadyFrom(0);
    return result;
  }

  Status ApplyUpdate(int64_t update_number) override { return inner_->ApplyUpdate(update_number); }

  Result<StepResult> Evaluate(const Batch& batch) override { return inner_->Evaluate(batch); }

 private:
  std::unique_ptr<Engine> inner_;
  int calls_left_;
  bool is_overflow_;
};

using Wrap = std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)>;

// What a rank stands at, for two of them to be compared.
std::string StandOf(GangRank& rank) {
  const std::vector<float> weights = Weights(rank.engine);
  std::string text = "step " + std::to_string(rank.trainer->last_applied().value()) + " weights " +
                     std::to_string(DigestOf(weights)) + " losses";
  for (const double loss : rank.losses) {
    text += " " + std::to_string(loss);
  }
  return text;
}

// One process of the job, with an engine on each of its GPUs.
Result<std::string> TrainOnGpus(TrainingSpec spec,
                                FakeTelling telling,
                                const Wrap& wrap,
                                Communicator& control,
                                GradientReducer& reducer,
                                const NcclGround& ground) {
  EngineCalls calls;
  int next_device = 0;
  spec.replicas = static_cast<int>(ground.devices.size());
  GangParts parts = TestSamples().Parts();
  parts.make_engine = [&](const TrainingSpec& of_engine) -> Result<std::unique_ptr<Engine>> {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Engine> inner, MakeReferenceEngine(of_engine));
    inner = wrap ? wrap(std::move(inner)) : std::move(inner);
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::unique_ptr<Engine> engine,
        MakeFakeGpuEngine(std::move(inner), next_device++, FakeCudaFile(), telling));
    return MakeCountedEngine(std::move(engine), &calls);
  };
  GangRank rank(spec, parts);
  RankControl rank_control(&control);
  const Result<TrainerVerdict> verdict =
      rank.trainer->RunMeeting(std::nullopt, {&rank_control, &reducer}, rank.is_stop_requested);
  const std::string counts = " waits " + std::to_string(calls.waits) + " updates " +
                             std::to_string(calls.updates) + " guarded " +
                             std::to_string(calls.guarded) + " skipped " +
                             std::to_string(rank.trainer->steps_skipped());
  const std::string stand = StandOf(rank) + counts + "; ";
  if (!verdict.ok()) {
    return Error(verdict.error().code(), stand + verdict.error().message());
  }
  return stand + rank.trainer->trouble();
}

std::vector<NcclRankEnd> TrainByNccl(const TrainingSpec& spec,
                                     const NcclGangOptions& options,
                                     const std::function<Wrap(int rank)>& wrap = {},
                                     FakeTelling telling = FakeTelling::kAtOnce) {
  return RunNcclGang(options,
                     [&](Communicator& control, GradientReducer& reducer, NcclGround& ground) {
                       const Wrap own = wrap ? wrap(control.rank()) : Wrap();
                       return TrainOnGpus(spec, telling, own, control, reducer, ground);
                     });
}

// The same job by the CPU, on engines of the host, so many steps of it.
std::string StandByTheCpu(TrainingSpec spec, int rank_count, int64_t step_count) {
  spec.length.count = step_count;
  GangParts parts = TestSamples().Parts();
  parts.make_engine = MakeReferenceEngine;
  const Gang gang = MakeGang(rank_count, spec, parts);
  RunMeeting(gang, Epoch(1));
  ExpectAll(gang, TrainerVerdict::kFinished);
  return StandOf(*gang.front());
}

NcclGangOptions Two(int device_count = 1, const std::string& fault = "") {
  NcclGangOptions options;
  options.world_size = 2;
  options.device_count = device_count;
  options.fault = fault;
  return options;
}

// Sums of two are the same in either order, so bits are: of engines that tell of each bucket as it
// is made, and of those that do a step from a graph.
TEST(NcclTrainer, RanksWithPeersComeToTheBitsOfTheCpuAndWaitOnceAStep) {
  for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
    const TrainingSpec spec = SpecOf(precision);
    const std::string expected = StandByTheCpu(spec, 2, kSteps);
    for (const FakeTelling telling : {FakeTelling::kAsTheyAreMade, FakeTelling::kAtOnce}) {
      for (const NcclRankEnd& end : TrainByNccl(spec, Two(), {}, telling)) {
        EXPECT_EQ(end.text, expected + " waits 12 updates 12 guarded 0 skipped 0; ") << end.code;
      }
    }
  }
}

// Clipped by the length that the step's end has told, on each of two engines.
TEST(NcclTrainer, ReplicasOfAllProcessesStayEqualAndWaitOnceAStep) {
  TrainingSpec spec = SpecOf(Precision::kFloat32);
  spec.gradient_clip_norm = 0.05;
  const auto ends = TrainByNccl(spec, Two(/*device_count=*/2));
  EXPECT_THAT(ends[0].text, StartsWith("step 12 "));
  EXPECT_THAT(ends[0].text, HasSubstr(" waits 24 updates 24 guarded 0 "));
  EXPECT_EQ(ends[0].text, ends[1].text);
}

TEST(NcclTrainer, OverflowOfOneRankIsSkippedByAllWithoutAnotherWait) {
  const auto ends = TrainByNccl(SpecOf(Precision::kFloat16), Two(), [](int rank) -> Wrap {
    return [rank](std::unique_ptr<Engine> inner) {
      return std::make_unique<BadEngine>(std::move(inner), rank == 1 ? 4 : 0, true);
    };
  });
  EXPECT_THAT(ends[0].text, HasSubstr(" waits 12 updates 11 guarded 0 skipped 1; "));
  EXPECT_EQ(ends[0].text, ends[1].text);
}

TEST(NcclTrainer, GradientsOfOneRankThatAreNotFiniteEndAllAtTheStepBefore) {
  const TrainingSpec spec = SpecOf(Precision::kFloat32);
  const auto ends = TrainByNccl(spec, Two(), [](int rank) -> Wrap {
    return [rank](std::unique_ptr<Engine> inner) {
      return std::make_unique<BadEngine>(std::move(inner), rank == 1 ? 4 : 0, false);
    };
  });
  const std::string expected = StandByTheCpu(spec, 2, 3);
  for (const NcclRankEnd& end : ends) {
    EXPECT_THAT(end.text, StartsWith(expected + " waits 4 updates 3 "));
    EXPECT_THAT(end.text, HasSubstr("the gradients of step 4 are not finite"));
  }
}

// In the midst of the fourth step's bucket, and of its sums, when the gradients are whole.
TEST(NcclTrainer, SurvivorOfALossInMidStepHasTheStepBefore) {
  const TrainingSpec spec = SpecOf(Precision::kFloat32);
  const std::string expected = StandByTheCpu(spec, 2, 3);
  for (const int sum : {1, 2}) {
    const std::string call = std::to_string(3 * kSumsOfAStep + sum);
    const auto ends = TrainByNccl(spec, Two(1, "die@rank=1@call=" + call));
    EXPECT_TRUE(ends[1].is_dead);
    EXPECT_THAT(ends[0].text, HasSubstr(expected + " waits 3 updates 3 ")) << call;
    EXPECT_THAT(ends[0].text, HasSubstr("rank 1 is lost: ")) << call;
  }
}

// Kernels that are given up end where they are, and what stands behind them runs: the state is not
// among it, and can be read.
TEST(NcclTrainer, SumThatNeverEndsChangesNothing) {
  TrainingSpec spec = SpecOf(Precision::kFloat32);
  const std::string expected = StandByTheCpu(spec, 2, 3);
  spec.communication.timeout = std::chrono::seconds(2);
  const auto ends =
      TrainByNccl(spec, Two(1, "hang@rank=1@call=" + std::to_string(3 * kSumsOfAStep + 1)));
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.code, static_cast<int>(ErrorCode::kTimeout));
    EXPECT_THAT(end.text, HasSubstr(expected + " waits 3 updates 3 "));
  }
}

}  // namespace
}  // namespace lockstep::runtime
