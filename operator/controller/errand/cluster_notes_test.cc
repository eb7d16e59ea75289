#include "operator/controller/errand/cluster_notes.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::seconds;

constexpr const char* kPod = "mnist-worker-0";

class ClusterNotesTest : public testing::Test {
 protected:
  void Fail(seconds at) {
    notes_.wall_now = WallTime(at);
    notes_.NoteFailure(job_, kPod, "failed calling webhook");
  }

  bool IsTold() const { return notes_.refused_pods.contains(job_); }

  const JobId job_{"default", "mnist"};
  ClusterNotes notes_;
};

TEST_F(ClusterNotesTest, FailuresAreToldAfterAWhile) {
  Fail(seconds(100));
  Fail(seconds(109));
  EXPECT_FALSE(IsTold());
  Fail(seconds(110));
  const PodRefusal told{"failed calling webhook", false, 1, WallTime(seconds(110))};
  EXPECT_EQ(notes_.refused_pods[job_][kPod], told);
}

TEST_F(ClusterNotesTest, FailuresOfALaterTryAreToldAtOnceWhileTheOutageLasts) {
  Fail(seconds(100));
  Fail(seconds(110));
  notes_.refused_pods.erase(job_);  // the gang was rolled back
  Fail(seconds(170));
  EXPECT_TRUE(IsTold());
}

TEST_F(ClusterNotesTest, FailureLongAfterTheLastOneIsAHiccupAgain) {
  Fail(seconds(100));
  Fail(seconds(1000));
  EXPECT_FALSE(IsTold());
}

TEST_F(ClusterNotesTest, FailuresAfterAPodWasMadeCountAnew) {
  Fail(seconds(100));
  Fail(seconds(110));
  notes_.NoteCreated(job_, kPod);
  EXPECT_FALSE(IsTold());
  Fail(seconds(111));
  EXPECT_FALSE(IsTold());
}

TEST_F(ClusterNotesTest, ClockThatWasSetBackMakesNobodyWaitLonger) {
  Fail(seconds(5000));
  Fail(seconds(100));
  Fail(seconds(110));
  EXPECT_TRUE(IsTold());
}

}  // namespace
}  // namespace lockstep::control
