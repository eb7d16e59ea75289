#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"

// Whoever gives the state may be lost on the way: nobody may train on from a mixture, and no state
// that is the last one may be given up for one that never comes.

namespace lockstep::runtime {
namespace {

constexpr int kCallsMax = 60;  // far more than it takes to hand a state over
constexpr float kSources = 0.5F;

// Makes `rank` hold a state: all its values are `value`.
void Hold(GangRank* rank, float value) {
  for (const TensorView& tensor : rank->engine->Tensors()) {
    std::ranges::fill(tensor.data, value);
  }
  EXPECT_TRUE(rank->engine->BringToDevice(EnginePart::kState).ok());
  rank->trainer->HoldState();
}

bool AreAll(GangRank* rank, float value) {
  const std::vector<float> weights = Weights(rank->engine);
  return std::ranges::all_of(weights, [value](float weight) { return weight == value; });
}

// What has become of a state that came in part.
enum class Came { kNothing, kPart, kAll };

Came WhatCame(GangRank* rank, const std::vector<float>& before) {
  if (Weights(rank->engine) == before) {
    return Came::kNothing;
  }
  return AreAll(rank, kSources) ? Came::kAll : Came::kPart;
}

// What comes in part comes to the host, so a device never has a mixture.
void ExpectMixtures(int count) {
  const auto rank = MakeRank(MakeSpec(1));
  if (rank->replicas->IsInHostMemory()) {
    EXPECT_GT(count, 0);
  } else {
    EXPECT_EQ(count, 0);
  }
}

TEST(StateLoss, NewcomerWithAMixtureIsNoSourceAndSaysSo) {
  const TrainingSpec spec = MakeSpec(2);
  int mixture_count = 0;
  for (int calls_left = 0; calls_left < kCallsMax; ++calls_left) {
    Gang ranks = MakeRanks(2, spec);
    const std::vector<float> seed = Weights(ranks[0]->engine);
    Hold(ranks[1].get(), kSources);
    ranks[1]->calls_left = calls_left;
    RunMeeting(ranks, Epoch(1));
    if (ranks[0]->trainer->has_state()) {
      break;
    }
    const bool is_mixture = WhatCame(ranks[0].get(), seed) != Came::kNothing;
    mixture_count += is_mixture ? 1 : 0;
    ranks[1] = MakeRank(spec);
    RunMeeting(ranks, Epoch(2));
    // Where the first tensor was on its way, nobody can tell how much of it has come.
    ASSERT_TRUE(!is_mixture || !ranks[0]->verdict->ok()) << calls_left;
    ASSERT_TRUE(calls_left > 0 || ranks[0]->verdict->ok());
    if (!ranks[0]->verdict->ok()) {
      EXPECT_EQ(ranks[0]->verdict->error().code(), ErrorCode::kUnavailable);
      EXPECT_FALSE(ranks[0]->trainer->has_state());
    }
  }
  ExpectMixtures(mixture_count);
}

TEST(StateLoss, NewcomerWithAMixtureTakesTheNextState) {
  const TrainingSpec spec = MakeSpec(2);
  for (int calls_left = 0; calls_left < kCallsMax; ++calls_left) {
    Gang ranks = MakeRanks(2, spec);
    Hold(ranks[0].get(), kSources);
    ranks[0]->calls_left = calls_left;
    RunMeeting(ranks, Epoch(1));
    if (ranks[1]->trainer->has_state()) {
      break;
    }
    ranks[0] = MakeRank(spec);
    RunMeeting(ranks, Epoch(2));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    const Gang undisturbed = MakeRanks(2, spec);
    RunMeeting(undisturbed, Epoch(1));
    ASSERT_EQ(Weights(ranks[1]->engine), Weights(undisturbed[1]->engine)) << calls_left;
  }
}

TEST(StateLoss, TheLastOtherStateIsKeptUntilAllHasCome) {
  for (int calls_left = 0; calls_left < kCallsMax; ++calls_left) {
    Gang ranks = MakeRanks(2, MakeSpec(2));
    Hold(ranks[0].get(), kSources);
    Hold(ranks[1].get(), 0.25F);
    const std::vector<float> before = Weights(ranks[1]->engine);
    ranks[0]->calls_left = calls_left;
    bool has_all = false;
    ranks[1]->after_step = [&](const StepReport& /*report*/) { has_all = true; };
    RunMeeting(ranks, Epoch(1));
    ASSERT_TRUE(ranks[1]->trainer->has_state()) << calls_left;
    const Came came = WhatCame(ranks[1].get(), before);
    if (has_all || came == Came::kAll) {
      return;
    }
    ASSERT_EQ(came, Came::kNothing) << calls_left;
  }
  FAIL() << "the state never came";
}

// Here a third rank still has it.
TEST(StateLoss, AStateThatAnotherRankHoldsNeedsNoSecondPlace) {
  int mixture_count = 0;
  for (int calls_left = 0; calls_left < kCallsMax; ++calls_left) {
    Gang ranks = MakeRanks(3, MakeSpec(2));
    Hold(ranks[0].get(), kSources);
    Hold(ranks[1].get(), 0.25F);
    Hold(ranks[2].get(), kSources);
    const std::vector<float> before = Weights(ranks[1]->engine);
    ranks[0]->calls_left = calls_left;
    RunMeeting(ranks, Epoch(1));
    if (ranks[1]->trainer->last_applied() > Step(0)) {
      break;
    }
    const bool is_mixture = WhatCame(ranks[1].get(), before) == Came::kPart;
    mixture_count += is_mixture ? 1 : 0;
    ASSERT_FALSE(is_mixture && ranks[1]->trainer->has_state()) << calls_left;
    ranks[0] = MakeRank(MakeSpec(2));
    RunMeeting(ranks, Epoch(2));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    ASSERT_EQ(Weights(ranks[1]->engine), Weights(ranks[2]->engine)) << calls_left;
  }
  ExpectMixtures(mixture_count);
}

// Three ranks of which rank 1 is new, while the others have taken steps.
Gang WithANewcomer(const TrainingSpec& spec) {
  constexpr int kCallsOfSomeSteps = 40;
  Gang ranks = MakeRanks(3, spec);
  ranks[1]->calls_left = kCallsOfSomeSteps;
  RunMeeting(ranks, Epoch(1));
  EXPECT_GT(ranks[0]->trainer->last_applied(), Step(0));
  ranks[1] = MakeRank(spec);
  return ranks;
}

// The newcomer reads where the source has its state, if that is in the host's memory: whichever of
// the two is lost on the way, the survivors have what they had, and the next newcomer takes it.
TEST(StateLoss, WhoeverIsLostAsANewcomerReadsTheNextOneHasAnotherSource) {
  const TrainingSpec spec = MakeSpec(12);
  const Gang undisturbed = MakeRanks(3, spec);
  RunMeeting(undisturbed, Epoch(1));
  const std::vector<float> fresh = Weights(MakeRank(spec)->engine);
  int mixture_count = 0;
  for (int calls_left = 0; calls_left < 2 * kCallsMax; ++calls_left) {
    const std::size_t victim = static_cast<std::size_t>(calls_left) % 2;
    Gang ranks = WithANewcomer(spec);
    const Step applied = ranks[2]->trainer->last_applied();
    ranks[victim]->calls_left = calls_left / 2;
    RunMeeting(ranks, Epoch(2));
    ASSERT_FALSE(ranks[2]->verdict->ok());
    EXPECT_EQ(ranks[2]->verdict->error().code(), ErrorCode::kPeerLost);
    EXPECT_NE(
        ranks[2]->verdict->error().ToString().find("rank " + std::to_string(victim) + " is lost"),
        std::string::npos)
        << ranks[2]->verdict->error().ToString();
    if (ranks[2]->trainer->last_applied() > applied) {
      break;
    }
    const std::vector<float> came = Weights(ranks[1]->engine);
    const bool is_part = came != fresh && came != Weights(ranks[2]->engine);
    mixture_count += is_part ? 1 : 0;
    ASSERT_FALSE(is_part && ranks[1]->trainer->has_state()) << calls_left;
    ranks[victim] = MakeRank(spec);
    RunMeeting(ranks, Epoch(3));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    for (const auto& rank : ranks) {
      ASSERT_EQ(Weights(rank->engine), Weights(undisturbed[0]->engine)) << calls_left;
    }
  }
  ExpectMixtures(mixture_count);
}

}  // namespace
}  // namespace lockstep::runtime
