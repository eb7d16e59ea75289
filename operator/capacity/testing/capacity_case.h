#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/reconcile/testing/fake_asking_world.h"

namespace lockstep::control {

// How the wait of a job for room ends, otherwise than by room.
struct WaitEnd {
  std::string name;
  void (*act)(TestWorld*);
};

// Those that are the same however the job asks for room.
std::vector<WaitEnd> WaitEnds();

// The base of tests of a job that asks for room, and what holds however it asks.
class CapacityCase : public ::testing::Test, protected FakeAskingWorld {
 protected:
  explicit CapacityCase(TrainingJob job) : FakeAskingWorld(std::move(job)) {}

  // Whether it ends after the first turn or after the second, no object stays.
  void ExpectNothingLeftOver(const std::vector<WaitEnd>& ends);

  // Whatever happens in 300 stories, no object stays after the job's end, and there never are many.
  void ExpectNothingLeftOverAfterStories(const TrainingJob& job, const Move& move);
};

}  // namespace lockstep::control
