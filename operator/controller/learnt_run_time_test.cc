// How long jobs ran that have ended: what others reckon with.

#include <gtest/gtest.h>

#include "operator/controller/testing/round_bench.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

class LearntRunTimeTest : public RoundBench {
 protected:
  explicit LearntRunTimeTest(bool learns_run_times = true) : RoundBench(learns_run_times) {
    AddNode("node-a", 4);
  }

  void AddSucceeded(const std::string& name, int64_t run_seconds) {
    AddJob(name, 2);
    TrainingJob job = Stored(name);
    job.status.origin.generation = job.metadata.generation;
    job.status.start_time = WallTime{seconds(1000)};
    job.status.completion_time = WallTime{seconds(1000 + run_seconds)};
    job.status.conditions.push_back(
        {ConditionType::kSucceeded, true, "Succeeded", "", *job.status.completion_time});
    Store(job);
  }

  // Has its places since then.
  void AddRunning(const std::string& name, WallTime since) {
    AddJob(name, 2);
    TrainingJob job = Stored(name);
    PodPlacement placement;
    placement.node = "node-a";
    job.status.placement = {placement};
    job.status.origin.generation = job.metadata.generation;
    job.status.start_time = since;
    job.status.conditions.push_back({ConditionType::kScheduled, true, "Placed", "", since});
    Store(job);
  }

  const std::string needs_ = "needs 4 GPUs, 2 free on 1 node";
};

TEST_F(LearntRunTimeTest, HeadIsToldWhenTheOneInItsWayIsExpectedToEnd) {
  AddSucceeded("first", 100);
  AddSucceeded("second", 160);
  AddRunning("old", now_ - seconds(60));
  AddJob("head", 4);
  EXPECT_EQ(
      Ask("head"),
      needs_ +
          "; estimated start about 1970-01-01T00:35Z, when default/old is expected to end: the "
          "last 2 runs of similar jobs took 100 s to 3 min");
}

TEST_F(LearntRunTimeTest, WhatIsLearntMeanwhileDoesNotMoveTheEndOfOneThatRuns) {
  AddSucceeded("first", 100);
  AddSucceeded("second", 160);
  AddRunning("old", now_ - seconds(60));
  AddJob("head", 4);
  const std::string said = Ask("head");
  ASSERT_NE(said.find("estimated start"), std::string::npos) << said;
  AddSucceeded("third", 400);
  EXPECT_EQ(Ask("head"), said);
}

TEST_F(LearntRunTimeTest, OneThatIsOfAnotherKindTellsNothing) {
  AddSucceeded("first", 100);
  AddSucceeded("second", 160);
  AddRunning("old", now_ - seconds(60));
  TrainingJob edited = Stored("old");
  edited.metadata.generation = 7;  // the gang that runs is from before
  edited.status.origin.generation = 6;
  Store(edited);
  AddJob("head", 4);
  EXPECT_EQ(Ask("head"), needs_);
}

class UnlearntRunTimeTest : public LearntRunTimeTest {
 protected:
  UnlearntRunTimeTest() : LearntRunTimeTest(false) {}
};

TEST_F(UnlearntRunTimeTest, NothingIsLearntUnlessTheOperatorIsTold) {
  AddSucceeded("first", 100);
  AddSucceeded("second", 160);
  AddRunning("old", now_ - seconds(60));
  AddJob("head", 4);
  EXPECT_EQ(Ask("head"), needs_);
}

}  // namespace
}  // namespace lockstep::control
