#include "trainer-runtime/collectives/nccl/testing/nccl_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

int CountOf(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

}  // namespace

Duration NcclFault::timeout() const {
  return is_about_time ? kFaultTimeout : kOutOfReach;
}

std::vector<NcclFault> NcclFaults() {
  return {
      {"FailInit",
       "fail-init@rank=1",
       ErrorCode::kInternal,
       ErrorCode::kAborted,
       "unhandled cuda error (run with NCCL_DEBUG=INFO for details) (ordered: the device does not "
       "join)"},
      {"SlowInit",
       "slow-init@rank=1@ms=3600000",
       ErrorCode::kTimeout,
       ErrorCode::kTimeout,
       "deadline passed",
       /*is_about_time=*/true},
      {"BlockInit",
       "block-init@rank=1@ms=3600000",
       ErrorCode::kTimeout,
       ErrorCode::kTimeout,
       "deadline passed",
       /*is_about_time=*/true},
      {"FirstSum",
       "async-error@rank=1@call=0",
       ErrorCode::kPeerLost,
       ErrorCode::kPeerLost,
       "(ordered: the connection to a peer broke)"},
      {"NoWay",
       "hang@rank=1@call=0",
       ErrorCode::kTimeout,
       ErrorCode::kTimeout,
       "deadline passed",
       /*is_about_time=*/true},
      {"AsyncError",
       "async-error@rank=1@call=3",
       ErrorCode::kPeerLost,
       ErrorCode::kPeerLost,
       "remote process exited or there was a network error (ordered: the connection to a peer "
       "broke)"},
      {"SystemError",
       "system-error@rank=1@call=3",
       ErrorCode::kIo,
       ErrorCode::kAborted,
       "unhandled system error (run with NCCL_DEBUG=INFO for details) (ordered: no space left in "
       "/dev/shm)"},
      {"SystemErrorInTheFirstSum",
       "system-error@rank=1@call=0",
       ErrorCode::kIo,
       ErrorCode::kAborted,
       "(ordered: no space left in /dev/shm). All ranks are alive, so a system call on this "
       "machine has failed. On this machine: /dev/shm has "},
      {"Refuse",
       "refuse@rank=1@call=4",
       ErrorCode::kInternal,
       ErrorCode::kAborted,
       "epoch 3, call 4: with NCCL on GPU-"},
      {"Hang",
       "hang@rank=1@call=2",
       ErrorCode::kTimeout,
       ErrorCode::kTimeout,
       "deadline passed, and NCCL does not say which rank is late; not finished on GPU-",
       /*is_about_time=*/true},
      {"Die",
       "die@rank=1@call=5",
       ErrorCode::kInternal,
       ErrorCode::kPeerLost,
       " is lost: ",
       /*is_about_time=*/false,
       /*is_deadly=*/true},
  };
}

std::string NameOfTest(const NcclFault& fault, const std::string& version) {
  return std::string(fault.name) + version[2] + version[3];
}

void ExpectAllSayWhy(const std::vector<NcclRankEnd>& ends,
                     const NcclFault& fault,
                     std::size_t victim) {
  EXPECT_EQ(ends[victim].is_dead, fault.is_deadly);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (fault.is_deadly && rank == victim) {
      continue;
    }
    const std::string& text = ends[rank].text;
    const ErrorCode expected = rank == victim ? fault.own : fault.others;
    if (expected == ErrorCode::kAborted) {
      // The others may hear from NCCL that the victim is gone before they hear its own word.
      EXPECT_THAT(ends[rank].code,
                  AnyOf(static_cast<int>(expected), static_cast<int>(ErrorCode::kPeerLost)))
          << text;
    } else {
      EXPECT_EQ(ends[rank].code, static_cast<int>(expected)) << text;
    }
    EXPECT_THAT(text,
                AllOf(StartsWith("rank " + std::to_string(rank) + ": "),
                      HasSubstr(fault.cause),
                      HasSubstr("epoch 3"),
                      HasSubstr(" s")));
    if (fault.is_deadly) {
      EXPECT_THAT(text, HasSubstr("rank " + std::to_string(victim) + " is lost"));
    }
    if (CountOf("joining", text) > 0) {  // once, and the reason once
      EXPECT_EQ(CountOf("joining", text), 1) << text;
      EXPECT_EQ(CountOf(fault.cause, text), 1) << text;
    }
  }
}

}  // namespace lockstep::runtime
