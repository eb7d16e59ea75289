#include <algorithm>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/testing_world.h"

// What a rank sees of the others between two calls.

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

class CommunicatorHealthTest : public testing::TestWithParam<Backend> {};

INSTANTIATE_TEST_SUITE_P(Backends,
                         CommunicatorHealthTest,
                         testing::Values(Backend::kSharedMemory,
                                         Backend::kTcp,
                                         Backend::kHierarchical),
                         [](const auto& test) { return BackendText(test.param); });

// Looks until something is wrong.
Error AwaitTrouble(Communicator& communicator) {
  const Deadline patience = Soon();
  Status health = communicator.CheckHealth();
  while (health.ok() && !patience.HasPassed(SteadyNow())) {
    std::this_thread::yield();
    health = communicator.CheckHealth();
  }
  return health.ok() ? Error(ErrorCode::kInternal, "nothing was noticed") : health.error();
}

Status Meet(Communicator& communicator) {
  return communicator.Barrier(Soon());
}

TEST_P(CommunicatorHealthTest, LookingDisturbsNoCall) {
  RunThreads(3, GetParam(), [](Communicator& communicator) {
    for (int call = 0; call < 50; ++call) {
      // A peer that is ahead has sent the next call already.
      const Status health = communicator.CheckHealth();
      ASSERT_TRUE(health.ok()) << health.error().ToString();
      const Status met = Meet(communicator);
      ASSERT_TRUE(met.ok()) << met.error().ToString();
    }
  });
}

TEST_P(CommunicatorHealthTest, ReportedFailureIsSeenAndStays) {
  std::barrier<> all_have_seen(3);
  RunThreads(3, GetParam(), [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      communicator.Abort(Error(ErrorCode::kAborted, "the device is gone"));
      EXPECT_EQ(communicator.CheckHealth().error().message(), "the device is gone");
    } else {
      const Error error = AwaitTrouble(communicator);
      EXPECT_EQ(error.code(), ErrorCode::kAborted);
      // Perhaps in the words of the other one, who has seen it first.
      EXPECT_THAT(error.message(), HasSubstr("rank 1 reported: the device is gone"));
      EXPECT_EQ(Meet(communicator).error().message(), error.message());
    }
    all_have_seen.arrive_and_wait();
  });
}

// The mesh has seen that a peer moved on; why it did was said over the communicator before.
TEST_P(CommunicatorHealthTest, ReportTellsMoreThanAnAbortAfterIt) {
  std::barrier<> has_reported(3);
  std::barrier<> has_heard(3);
  RunThreads(3, GetParam(), [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      communicator.Abort(Error(ErrorCode::kAborted, "the device is gone"));
    }
    has_reported.arrive_and_wait();
    if (communicator.rank() == 1) {
      communicator.Abort(Error(ErrorCode::kPeerLost, "rank 0 is lost: moved_on"));
      EXPECT_EQ(Meet(communicator).error().message(), "rank 0 reported: the device is gone");
    }
    has_heard.arrive_and_wait();
  });
}

TEST_P(CommunicatorHealthTest, PeerThatIsGoneIsNamed) {
  ProcessWorld world(3, GetParam(), [](Communicator& communicator) {
    if (!Meet(communicator).ok() || communicator.rank() == 2) {
      return 0;  // ends without a word
    }
    const Error error = AwaitTrouble(communicator);
    // Who has seen it first may be gone by now, but for that it had to see it.
    const std::vector<int> lost = ParseLostPeers(error.message());
    const bool is_named = std::find(lost.begin(), lost.end(), 2) != lost.end();
    return error.code() == ErrorCode::kPeerLost && is_named ? 7 : 8;
  });
  EXPECT_EQ(world.Wait(2), 0);
  EXPECT_EQ(world.Wait(0), 7);
  EXPECT_EQ(world.Wait(1), 7);
}

TEST(CommunicatorHealth, OfOneRankIsItsOwn) {
  auto alone = MakeCommunicator(CommunicatorOptions{}, Soon()).value();
  EXPECT_TRUE(alone->CheckHealth().ok());
  alone->Abort(Error(ErrorCode::kAborted, "enough"));
  EXPECT_THAT(alone->CheckHealth().error().message(), HasSubstr("enough"));
}

}  // namespace
}  // namespace lockstep::runtime
