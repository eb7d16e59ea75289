// Training in 16 bits: steps that are skipped alike everywhere, and a loss scale that is a part of
// the state.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/train/loss_scale.h"
#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"

namespace lockstep::runtime {
namespace {

// Whether gradients are too large, by the scale of the loss and the samples at hand. Networks that
// are so by themselves would only be slower.
using IsTooLarge = std::function<bool(double loss_scale, const Batch&)>;

struct Trouble {
  IsTooLarge is_too_large;
  bool is_loss_too_large = false;  // then, too
};

// An engine whose gradients are too large when the test says so.
class TouchyEngine final : public Engine {
 public:
  TouchyEngine(std::unique_ptr<Engine> inner, Trouble trouble, std::vector<int64_t>* updates)
      : inner_(std::move(inner)), trouble_(std::move(trouble)), updates_(updates) {}

  std::string Description() const override { return inner_->Description(); }

  std::vector<TensorView> Tensors() override { return inner_->Tensors(); }

  std::span<float> Gradients() override { return inner_->Gradients(); }

  EngineBuffer GradientBuffer() override { return inner_->GradientBuffer(); }

  DeviceSums Sums() override { return inner_->Sums(); }

  Status Measure() override { return inner_->Measure(); }

  Result<StepResult> TakeStep() override { return inner_->TakeStep(); }

  Status ScaleGradients(float factor) override { return inner_->ScaleGradients(factor); }

  Status BringToHost(EnginePart part) override { return inner_->BringToHost(part); }

  Status BringToDevice(EnginePart part) override { return inner_->BringToDevice(part); }

  Status LendGradients(std::span<float> memory) override { return inner_->LendGradients(memory); }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    StepOptions later = options;  // whoever is told of gradients may not see others afterwards
    later.on_ready = {};
    const bool is_too_large = trouble_.is_too_large(options.loss_scale, batch);
    if (is_too_large) {
      later.update.reset();  // refused
    } else if (options.update.has_value() && updates_ != nullptr) {
      updates_->push_back(options.update->number);
    }
    Result<StepResult> result = inner_->ComputeGradients(batch, later);
    if (result.ok() && is_too_large) {
      result->gradient_length = std::numeric_limits<double>::infinity();
      result->overflow_count = 1;
      result->loss_sum =
          trouble_.is_loss_too_large ? std::numeric_limits<double>::infinity() : result->loss_sum;
      EXPECT_TRUE(inner_->BringToHost(EnginePart::kGradients).ok());
      inner_->Gradients().front() = std::numeric_limits<float>::infinity();
      EXPECT_TRUE(inner_->BringToDevice(EnginePart::kGradients).ok());
    }
    if (options.on_ready) {
      options.on_ready(0, static_cast<int64_t>(inner_->Gradients().size()), inner_->Sums().made);
    }
    return result;
  }

  Status ApplyUpdate(int64_t update_number) override {
    if (updates_ != nullptr) {
      updates_->push_back(update_number);
    }
    return inner_->ApplyUpdate(update_number);
  }

  Result<StepResult> Evaluate(const Batch& batch) override { return inner_->Evaluate(batch); }

 private:
  std::unique_ptr<Engine> inner_;
  Trouble trouble_;
  std::vector<int64_t>* updates_;
};

TrainingSpec In(Precision precision, int64_t step_count) {
  TrainingSpec spec = MakeSpec(step_count);
  spec.precision = precision;
  return spec;
}

GangParts Touchy(const Trouble& trouble, std::vector<int64_t>* updates = nullptr) {
  GangParts parts = TestSamples().Parts();
  parts.make_engine = [=](const TrainingSpec& spec) -> Result<std::unique_ptr<Engine>> {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Engine> inner, MakeTestEngine(spec));
    return std::unique_ptr<Engine>(
        std::make_unique<TouchyEngine>(std::move(inner), trouble, updates));
  };
  return parts;
}

// Two steps are skipped at the beginning.
Trouble AboveTwoToThe14() {
  return {[](double loss_scale, const Batch& /*batch*/) { return loss_scale > 16384; }};
}

Trouble Always() {
  return {[](double /*loss_scale*/, const Batch& /*batch*/) { return true; }};
}

// The brightest sample of all, which one rank of several has: a step of each data epoch, four
// times.
Trouble WithTheBrightestSample() {
  return {[](double loss_scale, const Batch& batch) {
    return loss_scale > 4096 &&
           std::ranges::any_of(batch.inputs, [](float value) { return value > 0.975F; });
  }};
}

// What a rank's steps told.
struct Told {
  std::vector<int64_t> skipped_at;
  std::vector<double> loss_scales;  // of the next step

  friend bool operator==(const Told&, const Told&) = default;
};

void Listen(const Gang& gang, std::vector<Told>* told) {
  told->resize(gang.size());
  for (std::size_t i = 0; i < gang.size(); ++i) {
    Told* const of_rank = &(*told)[i];
    gang[i]->after_step = [of_rank](const StepReport& report) {
      if (report.is_skipped) {
        of_rank->skipped_at.push_back(report.step.value());
      }
      of_rank->loss_scales.push_back(report.loss_scale);
      EXPECT_EQ(report.steps_skipped, static_cast<int64_t>(of_rank->skipped_at.size()));
    };
  }
}

// Wherever the sums are made. Losses: a number next to the middle between two of Float16 goes
// either way by the last bit of a sum, and these are 2^-11 apart.
TEST(LowPrecisionTrainer, StepThatOneRankCannotTakeIsSkippedByAllAsOneRankSkipsIt) {
  const TrainingSpec spec = In(Precision::kFloat16, 40);
  std::vector<int64_t> updates;
  const Gang one = MakeGang(1, spec, Touchy(WithTheBrightestSample(), &updates));
  std::vector<Told> expected;
  Listen(one, &expected);
  RunMeeting(one, Epoch(1));
  ExpectAll(one, TrainerVerdict::kFinished);
  ASSERT_EQ(expected[0].skipped_at.size(), 4U);
  EXPECT_EQ(expected[0].loss_scales.back(), 4096);
  std::vector<int64_t> numbers(36);
  std::iota(numbers.begin(), numbers.end(), 1);
  EXPECT_EQ(updates, numbers) << "a skipped step counts no update";
  for (const GangHosts hosts : {GangHosts::kOne, GangHosts::kMany}) {
    TrainingSpec spread = spec;
    spread.replicas = 2;
    const Gang three = MakeGang(3, spread, Touchy(WithTheBrightestSample()));
    std::vector<Told> told;
    Listen(three, &told);
    RunMeeting(three, Epoch(1), hosts);
    ExpectAll(three, TrainerVerdict::kFinished);
    for (std::size_t rank = 0; rank < three.size(); ++rank) {
      EXPECT_EQ(told[rank], expected[0]);
      EXPECT_EQ(Weights(three[rank]->engine), Weights(three[0]->engine));
      EXPECT_EQ(three[rank]->trainer->SampleTotalsNow(), (SampleTotals{500, 500, 0, 0}));
      for (std::size_t step = 0; step < 40; ++step) {
        EXPECT_NEAR(three[rank]->losses[step], one[0]->losses[step], 2e-3) << step;
      }
    }
  }
}

TEST(LowPrecisionTrainer, ScaleDoublesAfterTwoThousandGoodSteps) {
  const Gang one = MakeRanks(1, In(Precision::kFloat16, kGoodStepsToDouble + 1));
  std::vector<Told> told;
  Listen(one, &told);
  RunMeeting(one, Epoch(1));
  ExpectAll(one, TrainerVerdict::kFinished);
  EXPECT_TRUE(told[0].skipped_at.empty());
  EXPECT_EQ(told[0].loss_scales[kGoodStepsToDouble - 2], 65536);
  EXPECT_EQ(told[0].loss_scales[kGoodStepsToDouble - 1], 131072);
}

// The scale, its row of good steps and the count are in the checkpoint, in whatever state of the
// three it was written.
TEST(LowPrecisionTrainer, ResumedRunEndsLikeAnUninterruptedOne) {
  const GangParts parts = Touchy(WithTheBrightestSample());
  const Gang whole = MakeGang(1, In(Precision::kFloat16, 30), parts);
  std::vector<Told> expected;
  Listen(whole, &expected);
  RunMeeting(whole, Epoch(1));
  for (const int64_t cut : {1, 6, 13, 29}) {
    CheckpointFolder directory;
    Told told;
    std::vector<float> weights;
    for (const int64_t steps : {cut, int64_t{30}}) {
      const auto store = directory.Open(steps);
      Gang part;
      part.push_back(
          std::make_unique<GangRank>(In(Precision::kFloat16, steps), parts, store.get()));
      part[0]->after_step = [&told](const StepReport& report) {
        told.loss_scales.push_back(report.loss_scale);
        if (report.is_skipped) {
          told.skipped_at.push_back(report.step.value());
        }
        EXPECT_EQ(report.steps_skipped, static_cast<int64_t>(told.skipped_at.size()));
      };
      RunMeeting(part, Epoch(steps));
      ExpectAll(part, TrainerVerdict::kFinished);
      weights = Weights(part[0]->engine);
    }
    EXPECT_EQ(told, expected[0]) << cut;
    EXPECT_EQ(weights, Weights(whole[0]->engine)) << cut;
  }
}

// Wherever in a step a rank dies, a skipped one included; its successor takes the scale with the
// state.
TEST(LowPrecisionTrainer, LostRankIsReplacedAndNothingIsChanged) {
  const TrainingSpec spec = In(Precision::kFloat16, 5);
  const GangParts parts = Touchy(AboveTwoToThe14());
  const Gang undisturbed = MakeGang(3, spec, parts);
  RunMeeting(undisturbed, Epoch(1));
  ASSERT_EQ(undisturbed[0]->trainer->steps_skipped(), 2);
  constexpr int64_t kStride = 61;
  constexpr int64_t kBytesMax = 1 << 20;  // far above what a rank sends
  int64_t death_count = 0;
  for (int64_t bytes_left = 1; bytes_left < kBytesMax; bytes_left += kStride) {
    Gang ranks = MakeGang(3, spec, parts);
    const std::size_t victim = static_cast<std::size_t>(bytes_left) % 3;
    ranks[victim]->bytes_left = bytes_left;
    RunMeeting(ranks, Epoch(1));
    if (ranks[victim]->verdict->ok()) {
      break;  // it had sent all it had to send
    }
    ++death_count;
    ranks[victim] = std::make_unique<GangRank>(spec, parts);
    RunMeeting(ranks, Epoch(2));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    for (const auto& rank : ranks) {
      ASSERT_EQ(Weights(rank->engine), Weights(undisturbed[0]->engine)) << bytes_left;
      ASSERT_EQ(rank->trainer->steps_skipped(), 2) << bytes_left;
      ASSERT_EQ(rank->trainer->SampleTotalsNow(), undisturbed[0]->trainer->SampleTotalsNow());
    }
  }
  EXPECT_GT(death_count, 10);
}

TEST(LowPrecisionTrainer, GradientsThatNoScaleHelpsEndTheTrainingInWords) {
  const Gang ranks = MakeGang(2, In(Precision::kFloat16, 40), Touchy(Always()));
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kDiverged);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->trainer->last_applied(), Step(16)) << "one for each halving";
    EXPECT_NE(rank->trainer->trouble().find("gradients of step 17 are not finite in Float16, even"),
              std::string::npos)
        << rank->trainer->trouble();
  }
}

TEST(LowPrecisionTrainer, ToldToTrainOnItSkipsWhatItCannotTake) {
  TrainingSpec spec = In(Precision::kFloat16, 40);
  spec.terminate_on_nan = false;
  const Gang ranks = MakeGang(1, spec, Touchy(Always()));
  const std::vector<float> before = Weights(ranks[0]->engine);
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kFinished);
  EXPECT_EQ(ranks[0]->trainer->steps_skipped(), 40);
  EXPECT_EQ(Weights(ranks[0]->engine), before);
}

// People read a mean over an epoch; a step that is not one of its numbers must not make it none.
TEST(LowPrecisionTrainer, LossThatIsTooLargeWithItsGradientsIsLeftOutOfTheMean) {
  Trouble trouble = AboveTwoToThe14();
  trouble.is_loss_too_large = true;
  const Gang ranks = MakeGang(1, In(Precision::kFloat16, 4), Touchy(trouble));
  std::vector<StepReport> reports;
  ranks[0]->after_step = [&](const StepReport& report) { reports.push_back(report); };
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kFinished);
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports[1].epoch_sample_count, reports[0].sample_count + reports[1].sample_count);
  EXPECT_EQ(reports[1].epoch_loss_sample_count, 0) << "both were skipped";
  EXPECT_TRUE(std::isnan(reports[1].epoch_loss)) << "of no samples";
  EXPECT_FALSE(reports[1].epoch_accuracy.has_value());
  EXPECT_EQ(reports[2].epoch_sample_count, reports[1].epoch_sample_count + reports[2].sample_count);
  EXPECT_EQ(reports[2].epoch_loss_sample_count, reports[2].sample_count);
  EXPECT_EQ(reports[2].epoch_loss, reports[2].loss);
  EXPECT_EQ(ranks[0]->trainer->SampleTotalsNow(), (SampleTotals{50, 50, 0, 0}));
}

// The weights are float32 under all of them.
TEST(LowPrecisionTrainer, CheckpointOfAnotherPrecisionIsGoneOnFrom) {
  struct Part {
    Precision precision;
    int64_t steps;
    double loss_scale;  // at its end
    int64_t steps_skipped;
  };

  CheckpointFolder directory;
  for (const Part& part : {Part{Precision::kFloat32, 3, 1, 0},
                           Part{Precision::kFloat16, 8, 16384, 2},
                           Part{Precision::kBFloat16, 11, 1, 2},
                           Part{Precision::kFloat16, 15, 16384, 2}}) {
    const auto store = directory.Open(part.steps);
    Gang ranks;
    ranks.push_back(std::make_unique<GangRank>(
        In(part.precision, part.steps), Touchy(AboveTwoToThe14()), store.get()));
    double loss_scale = 0;
    ranks[0]->after_step = [&](const StepReport& report) { loss_scale = report.loss_scale; };
    RunMeeting(ranks, Epoch(part.steps));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    EXPECT_EQ(ranks[0]->trainer->last_applied(), Step(part.steps));
    EXPECT_EQ(loss_scale, part.loss_scale) << part.steps;
    EXPECT_EQ(ranks[0]->trainer->steps_skipped(), part.steps_skipped) << part.steps;
  }
}

TEST(LowPrecisionTrainer, LearnsInEveryPrecision) {
  const Gang exact = MakeRanks(1, In(Precision::kFloat32, 40));
  RunMeeting(exact, Epoch(1));
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    const Gang rounded = MakeRanks(1, In(precision, 40));
    RunMeeting(rounded, Epoch(1));
    ExpectAll(rounded, TrainerVerdict::kFinished);
    EXPECT_NE(Weights(rounded[0]->engine), Weights(exact[0]->engine));
    EXPECT_NEAR(rounded[0]->losses.back(), exact[0]->losses.back(), 0.02);
    EXPECT_EQ(rounded[0]->trainer->test_result()->accuracy, 1.0);
    EXPECT_EQ(rounded[0]->trainer->steps_skipped(), 0);
  }
}

}  // namespace
}  // namespace lockstep::runtime
