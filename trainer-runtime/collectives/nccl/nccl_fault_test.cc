// Everything that can go wrong on order in the double of NCCL, on one of three ranks. Deadlines are
// out of reach unless a fault is about them: an error then shows that its cause was noticed.

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/testing/nccl_faults.h"
#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

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
    EXPECT_THAT(ends[rank].text, HasSubstr("rank 0 got no identity; NCCL says: unhandled system"));
  }
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
