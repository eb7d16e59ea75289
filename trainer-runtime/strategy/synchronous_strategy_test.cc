#include "trainer-runtime/strategy/synchronous_strategy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/engine/backward_progress.h"
#include "trainer-runtime/engine/testing/fake_device_engine.h"
#include "trainer-runtime/strategy/multi_worker_mirrored.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;

// What happened, in its order.
class Story {
 public:
  void Tell(const std::string& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }

  std::vector<std::string> events() const { return events_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> events_;
};

// Makes six gradients, two at a time from the last to the first, all of them its first label. Where
// that is below zero it fails after the first two.
class LayeredEngine final : public Engine {
 public:
  // `at`: called at the beginning and at the end of each step.
  LayeredEngine(Story* story, std::function<void(bool is_end)> at)
      : story_(story), at_(std::move(at)) {}

  std::string Description() const override { return "layers"; }

  std::vector<TensorView> Tensors() override { return {}; }

  std::span<float> Gradients() override { return gradients_; }

  Status LendGradients(std::span<float> /*memory*/) override { return OkStatus(); }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    at_(/*is_end=*/false);
    BackwardProgress progress = ProgressOnHost(options, 6);
    for (std::size_t offset = 4;; offset -= 2) {
      gradients_[offset] = gradients_[offset + 1] = batch.labels[0];
      story_->Tell("made " + std::to_string(offset));
      progress.ReadyFrom(static_cast<int64_t>(offset));
      if (batch.labels[0] < 0) {
        return Error(ErrorCode::kInternal, "no memory");
      }
      if (offset == 0) {
        at_(/*is_end=*/true);
        return StepResult{2.5, 1};
      }
    }
  }

  Status ApplyUpdate(int64_t update_number) override {
    story_->Tell("update " + std::to_string(update_number));
    return OkStatus();
  }

  Result<StepResult> Evaluate(const Batch& /*batch*/) override { return StepResult{}; }

 private:
  Story* const story_;
  const std::function<void(bool is_end)> at_;
  std::array<float, 6> gradients_{};
};

// Doubles what it is given, when it is finished; as a communicator of two equal ranks would.
class TellingReducer final : public GradientReducer {
 public:
  TellingReducer(Story* story, bool sums_beside) : story_(story), sums_beside_(sums_beside) {}

  Status Enqueue(std::span<float> bucket, Deadline /*deadline*/) override {
    story_->Tell("bucket of " + std::to_string(bucket.size()));
    if (buckets_left == 0) {
      buckets_.clear();
      return Error(ErrorCode::kPeerLost, "rank 1 is gone");
    }
    --buckets_left;
    buckets_.push_back(bucket);
    return OkStatus();
  }

  bool SumsOnDevices(std::span<const int> devices) const override {
    return std::ranges::equal(devices, devices_);
  }

  Status EnqueueOnDevices(std::span<const DeviceBucket> buckets, Deadline /*deadline*/) override {
    if (buckets.front().type == DataType::kFloat64) {
      story_->Tell("sums of " + std::to_string(buckets.size()));
      return OkStatus();
    }
    story_->Tell("device bucket of " + std::to_string(buckets.front().element_count));
    for (const DeviceBucket& bucket : buckets) {
      addresses.push_back(bucket.address);
      made.push_back(bucket.made);
    }
    return OkStatus();
  }

  Result<std::optional<TimePoint>> FinishOnDevices(std::span<void* const> after,
                                                   const std::function<Status()>& follow,
                                                   Deadline /*deadline*/) override {
    story_->Tell("wait for " + std::to_string(after.size()));
    if (sums_left == 0) {
      return Error(ErrorCode::kPeerLost, "rank 1 is gone");
    }
    --sums_left;
    LOCKSTEP_RETURN_IF_ERROR(follow());
    return std::optional<TimePoint>();
  }

  Status EnqueueTotals(std::span<double> totals, Deadline /*deadline*/) override {
    story_->Tell("totals");
    if (is_over) {
      return Error(ErrorCode::kAborted, "somebody joins");
    }
    totals[0] *= 2;
    return OkStatus();
  }

  Status Finish(Deadline /*deadline*/) override {
    story_->Tell("finish");
    for (const std::span<float> bucket : std::exchange(buckets_, {})) {
      for (float& value : bucket) {
        value *= 2;
      }
    }
    return OkStatus();
  }

  bool SumsBeside() const override { return sums_beside_; }

  void Abort(const Error& reason) noexcept override { story_->Tell("abort: " + reason.ToString()); }

  const char* BackendName() const override { return "story"; }

  std::string Detail() const override { return ""; }

  int buckets_left = 100000;         // until it fails
  std::vector<void*> addresses;      // of buckets on the device
  std::vector<void*> made;           // their events
  std::vector<int> devices_ = {-1};  // where it sums, if anywhere
  bool is_over = false;              // totals fail
  int sums_left = 100000;            // on devices, until they fail

 private:
  Story* const story_;
  const bool sums_beside_;
  std::vector<std::span<float>> buckets_;
};

struct World {
  World(std::size_t replica_count, bool sums_beside, bool is_on_device = false)
      : reducer(&story, sums_beside) {
    std::vector<std::unique_ptr<Engine>> engines;
    for (std::size_t i = 0; i < replica_count; ++i) {
      engines.push_back(std::make_unique<LayeredEngine>(&story, [this, i](bool is_end) {
        if (at) {
          at(i, is_end);
        }
      }));
      if (is_on_device) {
        engines.back() = MakeFakeDeviceEngine(std::move(engines.back()));
      }
    }
    replicas = std::make_unique<ReplicaSet>(std::move(engines));
    strategy = std::make_unique<MultiWorkerMirrored>(
        replicas.get(), BucketPlans{{{3, 3}, {1, 2}, {0, 1}}, {{2, 4}, {0, 2}}});
  }

  // Each replica's gradients are its label.
  Result<StepOutcome> Step(const std::vector<float>& labels,
                           const std::optional<GuardedUpdate>& update = {}) {
    std::vector<ReplicaShare> shares;
    for (const float& label : labels) {
      shares.push_back({{{}, {&label, 1}, 1}, 0});
    }
    const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::minutes(1));
    const auto pack = [this](const StepResult& sums) -> std::span<double> {
      totals = {sums.loss_sum};
      return totals;
    };
    ReplicaStep step{shares};
    step.update = update;
    return strategy->Step(step, {&reducer, deadline, pack});
  }

  Story story;
  std::function<void(std::size_t replica, bool is_end)> at;
  TellingReducer reducer;
  std::unique_ptr<ReplicaSet> replicas;
  std::unique_ptr<Strategy> strategy;
  std::vector<double> totals;
};

TEST(SynchronousStrategy, BucketGoesAsSoonAsBackwardHasMadeIt) {
  World world(1, true);
  ASSERT_TRUE(world.Step({3}).ok());
  EXPECT_THAT(world.story.events(),
              ElementsAre("made 4",
                          "made 2",
                          "bucket of 3",
                          "made 0",
                          "bucket of 2",
                          "bucket of 1",
                          "totals",
                          "finish"));
  EXPECT_THAT(world.strategy->ReadGradients().value(), ElementsAre(6, 6, 6, 6, 6, 6));
  EXPECT_THAT(world.totals, ElementsAre(5));
}

TEST(SynchronousStrategy, ReducerThatSumsAtOnceDoesNotHoldBackwardUp) {
  World world(1, false);
  ASSERT_TRUE(world.Step({3}).ok());
  EXPECT_THAT(
      world.story.events(),
      ElementsAre("made 4", "made 2", "made 0", "bucket of 4", "bucket of 2", "totals", "finish"));
  EXPECT_THAT(world.strategy->ReadGradients().value(), ElementsAre(6, 6, 6, 6, 6, 6));
}

// What a device has made so far the host cannot see. The buckets are those of ranks that can.
TEST(SynchronousStrategy, GradientsOnADeviceAreSummedAfterwardsInThePlanOfAllRanks) {
  World world(1, true, /*is_on_device=*/true);
  ASSERT_TRUE(world.Step({3}).ok());
  EXPECT_THAT(world.story.events(),
              ElementsAre("made 4",
                          "made 2",
                          "made 0",
                          "bucket of 3",
                          "bucket of 2",
                          "bucket of 1",
                          "totals",
                          "finish"));
  EXPECT_THAT(world.strategy->ReadGradients().value(), ElementsAre(6, 6, 6, 6, 6, 6));
}

// Beside backward, and nothing comes to the host until somebody reads it.
TEST(SynchronousStrategy, GradientsOfOneReplicaStayOnTheDeviceThatTheReducerSumsOn) {
  World world(1, true, /*is_on_device=*/true);
  world.reducer.devices_ = {0};
  ASSERT_TRUE(world.Step({3}).ok());
  EXPECT_THAT(world.story.events(),
              ElementsAre("made 4",
                          "made 2",
                          "device bucket of 3",
                          "made 0",
                          "device bucket of 2",
                          "device bucket of 1",
                          "sums of 1",
                          "totals",
                          "wait for 1"));
  EXPECT_THAT(world.totals, ElementsAre(0)) << "nobody has waited for the loss";
  auto* const begin = static_cast<float*>(world.replicas->engine(0).GradientBuffer().address);
  EXPECT_THAT(world.reducer.addresses, ElementsAre(begin + 3, begin + 1, begin));
  EXPECT_TRUE(std::isnan(world.replicas->engine(0).Gradients()[0]));
  EXPECT_TRUE(world.strategy->AreGradientsFinite().value());
  ASSERT_TRUE(world.strategy->ClipGradients(std::sqrt(6.0)).ok());
  EXPECT_TRUE(std::isnan(world.replicas->engine(0).Gradients()[0]));
  EXPECT_THAT(world.strategy->ReadGradients().value(), ElementsAre(1, 1, 1, 1, 1, 1));
  ASSERT_TRUE(world.strategy->Apply(1).ok());
}

// Nothing is changed before all that others have a part in has come to its end.
TEST(SynchronousStrategy, SumsThatFailOnTheDevicesLeaveNothingToTake) {
  World world(1, true, /*is_on_device=*/true);
  world.reducer.devices_ = {0};
  world.reducer.sums_left = 0;
  const auto outcome = world.Step({3});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kPeerLost);
  EXPECT_EQ(world.story.events().back(), "wait for 1");
}

// Whatever the meeting has to say is heard before anything is changed; afterwards there is nothing
// left to sum, or to wait for.
TEST(SynchronousStrategy, UpdateOfTheOnlyRankIsTheDevicesAndTheMeetingIsAskedBefore) {
  World world(1, true, /*is_on_device=*/true);
  world.reducer.devices_ = {0};
  const auto outcome = world.Step({3}, GuardedUpdate{.number = 7, .needs_finite = true});
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->is_guarded);
  EXPECT_TRUE(outcome->sums.is_updated);
  EXPECT_THAT(world.story.events(),
              ElementsAre("totals", "finish", "made 4", "made 2", "made 0", "update 7"));
  EXPECT_THAT(world.totals, ElementsAre(2.5)) << "the sum over one rank";
  EXPECT_TRUE(world.strategy->AreGradientsFinite().value());
  // The next one is as it ever was.
  EXPECT_FALSE(world.Step({3})->is_guarded);
  EXPECT_TRUE(world.strategy->AreGradientsFinite().value());
}

TEST(SynchronousStrategy, GradientsThatTheDeviceRefusedAreToldWithoutALook) {
  World world(1, true, /*is_on_device=*/true);
  world.reducer.devices_ = {0};
  const auto outcome = world.Step({INFINITY}, GuardedUpdate{.number = 7, .needs_finite = true});
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->sums.is_updated);
  EXPECT_FALSE(world.strategy->AreGradientsFinite().value());
  EXPECT_THAT(world.story.events(), ElementsAre("totals", "finish", "made 4", "made 2", "made 0"));
}

TEST(SynchronousStrategy, MeetingThatIsOverTakesNoUpdate) {
  World world(1, true, /*is_on_device=*/true);
  world.reducer.devices_ = {0};
  world.reducer.is_over = true;
  EXPECT_FALSE(world.Step({3}, GuardedUpdate{}).ok());
  EXPECT_THAT(world.story.events(), ElementsAre("totals"));
}

TEST(SynchronousStrategy, UpdateBehindASumOfTheHostIsLeftToTheHost) {
  for (const bool is_on_device : {false, true}) {
    World world(1, true, is_on_device);
    const auto outcome = world.Step({3}, GuardedUpdate{});
    ASSERT_TRUE(outcome.ok());
    EXPECT_FALSE(outcome->is_guarded);
  }
  World replicas(2, true, /*is_on_device=*/true);
  replicas.reducer.devices_ = {0};
  EXPECT_FALSE(replicas.Step({3, 3}, GuardedUpdate{})->is_guarded);
}

// Where the reducer cannot sum on the devices of all, replicas are summed on the host, and so are
// ranks.
TEST(SynchronousStrategy, GradientsOfSeveralReplicasAreSummedOnTheHost) {
  World world(2, true, /*is_on_device=*/true);
  world.reducer.devices_ = {0};
  ASSERT_TRUE(world.Step({1, 2}).ok());
  EXPECT_TRUE(world.reducer.addresses.empty());
  EXPECT_THAT(world.strategy->ReadGradients().value(), ElementsAre(6, 6, 6, 6, 6, 6));
}

// One bucket goes with the parts of all replicas, once all have made it; each clips its own.
TEST(SynchronousStrategy, GradientsOfSeveralReplicasStayOnTheDevicesThatTheReducerSumsOn) {
  World world(2, true, /*is_on_device=*/true);
  world.reducer.devices_ = {0, 0};
  std::latch first_is_through(1);
  world.at = [&](std::size_t replica, bool is_end) {
    if (replica == 0 && is_end) {
      first_is_through.count_down();
    } else if (replica == 1 && !is_end) {
      first_is_through.wait();
    }
  };
  ASSERT_TRUE(world.Step({3, 3}).ok());
  const std::vector<std::string> events = world.story.events();
  EXPECT_EQ(std::ranges::count(events, "device bucket of 3"), 1);
  EXPECT_EQ(std::ranges::count(events, "device bucket of 2"), 1);
  EXPECT_EQ(std::ranges::count(events, "device bucket of 1"), 1);
  auto* const first = static_cast<float*>(world.replicas->engine(0).GradientBuffer().address);
  auto* const second = static_cast<float*>(world.replicas->engine(1).GradientBuffer().address);
  EXPECT_THAT(world.reducer.addresses,
              ElementsAre(first + 3, second + 3, first + 1, second + 1, first, second));
  // Its own event of each, however far ahead the first replica was.
  const auto mark = [](float* barred, int number) {
    return reinterpret_cast<std::byte*>(barred) + number;
  };
  EXPECT_THAT(world.reducer.made,
              ElementsAre(mark(first, 0),
                          mark(second, 0),
                          mark(first, 1),
                          mark(second, 1),
                          mark(first, 2),
                          mark(second, 2)));
  EXPECT_TRUE(std::isnan(world.replicas->engine(0).Gradients()[0]));
  ASSERT_TRUE(world.strategy->ClipGradients(std::sqrt(6.0)).ok());
  ASSERT_TRUE(world.strategy->Apply(1).ok());
  for (const int replica : {0, 1}) {
    Engine& engine = world.replicas->engine(replica);
    EXPECT_TRUE(std::isnan(engine.Gradients()[0])) << "brought to the host";
    ASSERT_TRUE(engine.BringToHost(EnginePart::kGradients).ok());
    EXPECT_THAT(engine.Gradients(), ElementsAre(1, 1, 1, 1, 1, 1)) << replica;
  }
}

TEST(SynchronousStrategy, BucketIsTheSumOfAllReplicas) {
  for (const auto& [sums_beside, is_on_device] :
       {std::pair(true, false), std::pair(false, false), std::pair(true, true)}) {
    World world(3, sums_beside, is_on_device);
    for (int step = 0; step < 200; ++step) {
      ASSERT_TRUE(world.Step({1, 2, 4}).ok());
      ASSERT_THAT(world.strategy->ReadGradients().value(), ElementsAre(14, 14, 14, 14, 14, 14));
    }
  }
}

TEST(SynchronousStrategy, EngineFinishesWhenSumsFailAndTheFirstFailureIsTold) {
  World world(1, true);
  world.reducer.buckets_left = 0;
  const auto outcome = world.Step({3});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kPeerLost);
  EXPECT_THAT(world.story.events(), ElementsAre("made 4", "made 2", "bucket of 3", "made 0"));
}

// The other ranks wait for buckets that will not come, and the reducer holds some of ours.
TEST(SynchronousStrategy, EngineThatFailsEndsTheSumsThatHaveBegun) {
  World world(1, true);
  world.strategy = std::make_unique<MultiWorkerMirrored>(world.replicas.get(),
                                                         BucketPlans{{{4, 2}, {0, 4}}, {}});
  const auto outcome = world.Step({-1});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kInternal);
  ASSERT_EQ(world.story.events().size(), 4U);
  EXPECT_EQ(world.story.events()[1], "bucket of 2");
  EXPECT_THAT(world.story.events()[2], testing::StartsWith("abort: "));
  EXPECT_THAT(world.story.events()[2], testing::HasSubstr("no memory"));
  EXPECT_EQ(world.story.events()[3], "finish");
}

TEST(SynchronousStrategy, EngineThatFailsBeforeAnyBucketLeavesTheReducerAlone) {
  World world(1, true);
  ASSERT_FALSE(world.Step({-1}).ok());
  EXPECT_THAT(world.story.events(), ElementsAre("made 4"));
}

}  // namespace
}  // namespace lockstep::runtime
