#include "trainer-runtime/collectives/reduce/threaded_reducer.h"

#include <barrier>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/testing_world.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kBucketCount = 4;
constexpr std::size_t kBucketSize = 50000;  // elements

// Of every rank others, so that a sum in another order has other bits.
std::vector<float> Gradients(int rank, int step) {
  std::vector<float> values(kBucketCount * kBucketSize);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto unit = static_cast<float>(1 + i % 97 + static_cast<std::size_t>(step));
    values[i] = static_cast<float>(rank + 1) / unit * (i % 2 == 0 ? 1.0F : -3.0e5F);
  }
  return values;
}

std::span<float> Bucket(std::vector<float>& values, std::size_t index) {
  return std::span(values).subspan(index * kBucketSize, kBucketSize);
}

Status SumAll(GradientReducer& reducer, std::vector<float>& values, std::vector<double>& totals) {
  for (std::size_t i = 0; i < kBucketCount; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(reducer.Enqueue(Bucket(values, i), Soon()));
  }
  LOCKSTEP_RETURN_IF_ERROR(reducer.EnqueueTotals(totals, Soon()));
  return reducer.Finish(Soon());
}

TEST(ThreadedReducer, SumsAsTheCommunicatorDoes) {
  for (const Backend backend : {Backend::kSharedMemory, Backend::kTcp, Backend::kHierarchical}) {
    RunThreads(3, backend, [](Communicator& communicator) {
      ThreadedReducer beside(&communicator, kBucketCount + 1);
      CommunicatorReducer at_once(&communicator);
      for (int step = 0; step < 5; ++step) {
        std::vector<float> found = Gradients(communicator.rank(), step);
        std::vector<float> expected = found;
        std::vector<double> totals = {0.5 + communicator.rank(), 1};
        std::vector<double> expected_totals = totals;
        ASSERT_TRUE(SumAll(beside, found, totals).ok());
        ASSERT_TRUE(SumAll(at_once, expected, expected_totals).ok());
        EXPECT_EQ(found, expected);
        EXPECT_EQ(totals, expected_totals);
      }
    });
  }
}

TEST(ThreadedReducer, BucketIsTakenBeforeTheOthersHaveTheirs) {
  std::barrier<> has_enqueued(2);
  RunThreads(2, Backend::kTcp, [&](Communicator& communicator) {
    ThreadedReducer reducer(&communicator, 1);
    std::vector<float> values = {1};
    if (communicator.rank() == 1) {
      has_enqueued.arrive_and_wait();
    }
    EXPECT_TRUE(reducer.Enqueue(values, Soon()).ok());
    if (communicator.rank() == 0) {
      has_enqueued.arrive_and_wait();
    }
    EXPECT_TRUE(reducer.Finish(Soon()).ok());
    EXPECT_EQ(values[0], 2);
  });
}

TEST(ThreadedReducer, LostRankEndsTheStepAndAllLaterOnes) {
  RunThreads(2, Backend::kTcp, [](Communicator& communicator) {
    if (communicator.rank() == 1) {
      return;  // its links close
    }
    ThreadedReducer reducer(&communicator, kBucketCount + 1);
    {
      std::vector<float> values = Gradients(0, 0);
      std::vector<double> totals = {1};
      const Status lost = SumAll(reducer, values, totals);
      ASSERT_FALSE(lost.ok());
      EXPECT_EQ(lost.error().code(), ErrorCode::kPeerLost);
      EXPECT_THAT(ParseLostPeers(lost.error().message()), ElementsAre(1));
    }
    std::vector<float> values = {1};
    EXPECT_EQ(reducer.Enqueue(values, Soon()).error().code(), ErrorCode::kPeerLost);
    EXPECT_EQ(reducer.Finish(Soon()).error().code(), ErrorCode::kPeerLost);
  });
}

TEST(ThreadedReducer, DeadlineEndsTheStep) {
  std::barrier<> has_timed_out(2);
  RunThreads(2, Backend::kTcp, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      ThreadedReducer reducer(&communicator, kBucketCount);
      std::vector<float> values = Gradients(0, 0);
      const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::milliseconds(20));
      ASSERT_TRUE(reducer.Enqueue(Bucket(values, 0), deadline).ok());
      EXPECT_EQ(reducer.Finish(deadline).error().code(), ErrorCode::kTimeout);
    }
    has_timed_out.arrive_and_wait();
  });
}

TEST(ThreadedReducer, AbortEndsTheStepWithItsReason) {
  std::barrier<> is_aborted(2);
  RunThreads(2, Backend::kTcp, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      ThreadedReducer reducer(&communicator, kBucketCount);
      std::vector<float> values = Gradients(0, 0);
      ASSERT_TRUE(reducer.Enqueue(Bucket(values, 0), Soon()).ok());
      reducer.Abort(Error(ErrorCode::kAborted, "rank 1 is gone, says the mesh"));
      EXPECT_THAT(reducer.Finish(Soon()).error().ToString(), HasSubstr("says the mesh"));
    }
    is_aborted.arrive_and_wait();
  });
}

// Whoever leaves in the middle of a step keeps nobody waiting, and its buckets are its own again.
TEST(ThreadedReducer, StepThatIsGivenUpEndsForAll) {
  std::barrier<> has_ended(2);
  RunThreads(2, Backend::kTcp, [&](Communicator& communicator) {
    auto values = std::make_unique<std::vector<float>>(Gradients(communicator.rank(), 0));
    auto reducer = std::make_unique<ThreadedReducer>(&communicator, kBucketCount);
    ASSERT_TRUE(reducer->Enqueue(Bucket(*values, 0), Soon()).ok());
    if (communicator.rank() == 0) {
      reducer.reset();
      values.reset();
    } else {
      [[maybe_unused]] const Status begun = reducer->Enqueue(Bucket(*values, 1), Soon());
      const Status ended = reducer->Finish(Soon());
      EXPECT_FALSE(ended.ok());
      EXPECT_THAT(ended.ok() ? "" : ended.error().ToString(), HasSubstr("was abandoned"));
    }
    has_ended.arrive_and_wait();
  });
}

// A communicator that is between two steps is for others to use.
TEST(ThreadedReducer, FinishedStepLeavesTheCommunicatorWhole) {
  RunThreads(2, Backend::kTcp, [](Communicator& communicator) {
    {
      ThreadedReducer reducer(&communicator, kBucketCount + 1);
      std::vector<float> values = Gradients(communicator.rank(), 0);
      std::vector<double> totals = {1};
      ASSERT_TRUE(SumAll(reducer, values, totals).ok());
      ASSERT_TRUE(communicator.Barrier(Soon()).ok());
    }
    EXPECT_TRUE(communicator.Barrier(Soon()).ok());
  });
}

}  // namespace
}  // namespace lockstep::runtime
