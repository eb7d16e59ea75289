#include "trainer-runtime/collectives/nccl/nccl_blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Duration kNever = std::chrono::minutes(15);  // above the test's own limit
constexpr Duration kAtOnce = std::chrono::milliseconds(1);

const Error kGone(ErrorCode::kPeerLost, "NCCL says: remote process exited");
const Error kOfSystem(ErrorCode::kIo, "NCCL says: unhandled system error (no space left)");

Status AllLive() {
  return OkStatus();
}

// Says so when it is asked the third time.
std::function<Status()> LaterSays(Error error) {
  return [error = std::move(error), checks_left = 3]() mutable -> Status {
    return --checks_left > 0 ? OkStatus() : Status(error);
  };
}

TEST(WithBlame, WaitsUntilItIsKnownWhoIsGone) {
  const Error named =
      WithBlame(kGone, LaterSays(Error(ErrorCode::kAborted, "rank 1 is lost: closed")), kNever);
  EXPECT_EQ(named.code(), ErrorCode::kPeerLost);
  EXPECT_EQ(named.message(), "NCCL says: remote process exited; rank 1 is lost: closed");
  const Error again =
      WithBlame(named, LaterSays(Error(ErrorCode::kAborted, "rank 1 is lost: closed")), kNever);
  EXPECT_EQ(again.message(), named.message()) << "it is said already";
}

TEST(WithBlame, IsTheCauseAloneWhereNobodyKnowsWhoIsGone) {
  const Error error = WithBlame(kGone, AllLive, kAtOnce);
  EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
  EXPECT_EQ(error.message(), kGone.message());
}

// A connection breaks as its peer dies, and NCCL says "system error" of that, too.
TEST(WithBlame, SystemErrorWithALostRankIsThatLoss) {
  const Error error = WithBlame(
      kOfSystem, LaterSays(Error(ErrorCode::kPeerLost, "rank 1 is lost: closed")), kNever);
  EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
  EXPECT_EQ(error.message(), kOfSystem.message() + "; rank 1 is lost: closed");
}

TEST(WithBlame, SystemErrorWithAllRanksAliveIsThisMachines) {
  const Error error = WithBlame(kOfSystem, AllLive, kAtOnce);
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.message(),
              AllOf(StartsWith(kOfSystem.message() + ". All ranks are alive, so a system call on "),
                    HasSubstr("/dev/shm has "),
                    HasSubstr("this process may lock "),
                    HasSubstr("network interfaces: "),
                    HasSubstr("NCCL_SOCKET_IFNAME")));
}

TEST(WithBlame, WhatIsNoWordOfTheOthersIsNotWaitedFor) {
  const Error refused(ErrorCode::kInvalidArgument, "NCCL says: invalid usage");
  EXPECT_EQ(WithBlame(refused, AllLive, kNever).message(), refused.message());
}

}  // namespace
}  // namespace lockstep::runtime
