// Everything that can go wrong on order in the double of NCCL, on one of three ranks. Deadlines are
// out of reach unless a fault is about them: an error then shows that its cause was noticed.

#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/nccl_stages.h"
#include "trainer-runtime/collectives/nccl/testing/nccl_faults.h"
#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr std::size_t kElementCount = 3000;

// Three steps of two buckets each.
Result<std::string> ThreeSteps(GradientReducer& reducer, Duration timeout) {
  std::vector<float> gradients(kElementCount, 1.0F);
  for (int step = 0; step < 3; ++step) {
    const Deadline deadline = Deadline::After(SteadyNow(), timeout);
    const std::span<float> all(gradients);
    LOCKSTEP_RETURN_IF_ERROR(reducer.Enqueue(all.first(1000), deadline));
    LOCKSTEP_RETURN_IF_ERROR(reducer.Enqueue(all.subspan(1000), deadline));
    LOCKSTEP_RETURN_IF_ERROR(reducer.Finish(deadline));
  }
  return std::string("three steps");
}

class NcclFaultTest : public testing::TestWithParam<std::tuple<NcclFault, const char*, Backend>> {
 protected:
  std::vector<NcclRankEnd> Run() const {
    const auto& [fault, version, control] = GetParam();
    NcclGangOptions options;
    options.fault = fault.order;
    options.version = version;
    options.control = control;
    options.element_count = kElementCount;
    options.join_timeout = fault.timeout();
    return RunNcclGang(
        options, [timeout = fault.timeout()](Communicator&, GradientReducer& reducer, NcclGround&) {
          return ThreeSteps(reducer, timeout);
        });
  }
};

INSTANTIATE_TEST_SUITE_P(Faults,
                         NcclFaultTest,
                         testing::Combine(testing::ValuesIn(NcclFaults()),
                                          testing::Values("2.17", "2.30"),
                                          testing::Values(Backend::kSharedMemory, Backend::kTcp)),
                         [](const auto& test) {
                           return NameOfTest(std::get<0>(test.param), std::get<1>(test.param)) +
                                  BackendText(std::get<2>(test.param));
                         });

TEST_P(NcclFaultTest, AllRanksFailAtOnceAndSayWhy) {
  ExpectAllSayWhy(Run(), std::get<0>(GetParam()), 1);
}

TEST(NcclFault, NoIdentityIsRankZerosAffair) {
  NcclGangOptions options;
  options.fault = "no-identity";
  const auto ends = RunNcclGang(
      options, [](Communicator&, GradientReducer&, NcclGround&) { return std::string("joined"); });
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].code,
              static_cast<int>(rank == 0 ? ErrorCode::kInternal : ErrorCode::kAborted));
    EXPECT_THAT(
        ends[rank].text,
        HasSubstr("rank 0 could not get a unique id from NCCL; NCCL says: unhandled system"));
  }
}

// NCCL says the same of a connection that broke as its peer died: that is a loss, and training goes
// on with a successor.
TEST(NcclFault, SystemErrorWhileARankDiesIsThatLoss) {
  NcclGangOptions options;
  options.fault = "system-error@rank=1@call=3;die@rank=2@call=3";
  options.element_count = kElementCount;
  options.loss_patience = kOutOfReach;
  const auto ends = RunNcclGang(options, [](Communicator&, GradientReducer& reducer, NcclGround&) {
    return ThreeSteps(reducer, kOutOfReach);
  });
  EXPECT_TRUE(ends[2].is_dead);
  EXPECT_EQ(ends[1].code, static_cast<int>(ErrorCode::kPeerLost)) << ends[1].text;
  EXPECT_THAT(ends[1].text,
              AllOf(HasSubstr("rank 2 is lost"), Not(HasSubstr("All ranks are alive"))));
}

// NCCL connects ranks for an algorithm at the first sum that it takes it for.
TEST(NcclFault, SizeThatHasNoWayIsFoundWhileJoining) {
  for (const int device_count : {1, 2}) {
    NcclGangOptions options;
    options.world_size = 2;
    options.device_count = device_count;
    options.bucket_counts = {2000, 250, 1000};
    options.fault = "no-way@rank=1@bytes=4000";
    const auto ends = RunNcclGang(
        options, [](Communicator&, GradientReducer&, NcclGround&) -> Result<std::string> {
          return Error(ErrorCode::kInvalidArgument, "joined");
        });
    for (const NcclRankEnd& end : ends) {
      EXPECT_THAT(
          end.text,
          AllOf(
              HasSubstr("joining 2 ranks with NCCL"),
              HasSubstr(
                  "a test sum of 4000 bytes, the size of a bucket of this job, failed: NCCL says"),
              HasSubstr("ordered: no way between GPUs for such a sum")));
    }
  }
}

TEST(NcclFault, SizesThatHaveAWayAreTriedAndJoiningSucceeds) {
  NcclGangOptions options;
  options.element_count = kElementCount;
  options.bucket_counts = {2000, 1000, 1000};
  options.fault = "no-way@rank=1@bytes=8001";
  const auto ends = RunNcclGang(options, [](Communicator&, GradientReducer& reducer, NcclGround&) {
    return ThreeSteps(reducer, kOutOfReach);
  });
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.text, "three steps");
  }
}

TEST(TrialCounts, AreTheSizesOfTheBucketsOnceEach) {
  EXPECT_THAT(TrialCounts({2000, 250, 1000, 250}), ElementsAre(250, 1000, 2000));
  EXPECT_THAT(TrialCounts({kTrialBytesMax, 1}), ElementsAre(1, kTrialBytesMax / sizeof(float)));
  EXPECT_THAT(TrialCounts({}), IsEmpty());
  std::vector<std::size_t> many(1000);
  std::iota(many.begin(), many.end(), 1);
  const std::vector<std::size_t> some = TrialCounts(many);
  EXPECT_THAT(some, SizeIs(kTrialsMax));
  EXPECT_EQ(some.front(), 1);
  EXPECT_EQ(some.back(), 1000);
  EXPECT_TRUE(std::ranges::is_sorted(some));
}

TEST(NcclFault, SlowInitIsWaitedFor) {
  NcclGangOptions options;
  options.fault = "slow-init@rank=2@ms=300";
  options.element_count = kElementCount;
  const auto ends = RunNcclGang(options, [](Communicator&, GradientReducer& reducer, NcclGround&) {
    return ThreeSteps(reducer, kOutOfReach);
  });
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.text, "three steps");
  }
}

// Somebody's word that a rank is lost ends the sum on every rank, whatever NCCL does.
TEST(NcclFault, AbortFromAnotherThreadEndsASum) {
  NcclGangOptions options;
  options.fault = "hang@rank=1";
  options.element_count = kElementCount;
  const auto ends =
      RunNcclGang(options, [](Communicator& control, GradientReducer& reducer, NcclGround&) {
        std::jthread relay;
        if (control.rank() == 0) {
          relay = std::jthread([&reducer] {
            reducer.Abort(Error(ErrorCode::kPeerLost, "rank 1 is lost: the operator says so"));
          });
        }
        return ThreeSteps(reducer, kOutOfReach);
      });
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.code, static_cast<int>(ErrorCode::kPeerLost));
    EXPECT_THAT(end.text, HasSubstr("rank 1 is lost: the operator says so"));
  }
}

TEST(NcclFault, FirstErrorStays) {
  NcclGangOptions options;
  options.world_size = 1;
  options.fault = "refuse";
  options.element_count = kElementCount;
  const auto ends =
      RunNcclGang(options, [](Communicator& control, GradientReducer& reducer, NcclGround&) {
        const std::string first = ThreeSteps(reducer, kOutOfReach).error().message();
        const std::string second = ThreeSteps(reducer, kOutOfReach).error().message();
        const std::string third = reducer.Finish(Soon()).error().message();
        const bool is_over = !control.CheckHealth().ok();
        return Result<std::string>(
            Error(ErrorCode::kInternal,
                  first == second && second == third && is_over ? "stayed" : first + second));
      });
  EXPECT_EQ(ends[0].text, "stayed");
}

// An abort that hangs: older libraries lose the process's part in NCCL, newer ones can revoke.
TEST(NcclFault, StuckAbortIsGivenUp) {
  for (const char* version : {"2.27", "2.28"}) {
    NcclGangOptions options;
    options.world_size = 1;
    options.version = version;
    options.fault = "hang;stuck-abort";
    options.element_count = kElementCount;
    const auto ends =
        RunNcclGang(options, [](Communicator&, GradientReducer& reducer, NcclGround& ground) {
          ground.end_patience = std::chrono::milliseconds(200);
          const Error error = ThreeSteps(reducer, kFaultTimeout).error();
          return Result<std::string>(
              Error(error.code(), ground.is_stuck.load() ? "stuck" : "ended"));
        });
    EXPECT_EQ(ends[0].code, static_cast<int>(ErrorCode::kTimeout));
    EXPECT_EQ(ends[0].text, std::string(version) == "2.27" ? "stuck" : "ended");
  }
}

TEST(NcclFault, StuckProcessJoinsNoMore) {
  auto control = MakeCommunicator(CommunicatorOptions{}, Soon()).value();
  NcclReducerOptions options;
  options.ground = MakeFakeGround("2.30");
  options.ground->is_stuck.store(true);
  options.control = control.get();
  const auto joined = JoinNccl(options, Soon());
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().code(), ErrorCode::kInternal);
  EXPECT_THAT(joined.error().ToString(), HasSubstr("has not returned in this process"));
}

}  // namespace
}  // namespace lockstep::runtime
