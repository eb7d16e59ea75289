#include "trainer-runtime/collectives/nccl/nccl_agreement.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

NcclHello Hello(int version, const std::string& uuid, bool is_unable = false) {
  return MakeNcclHello(version, uuid, is_unable);
}

std::string Words(const std::vector<NcclHello>& hellos) {
  const Status status = CheckNcclHellos(hellos);
  return status.ok() ? "ok" : status.error().message();
}

TEST(CheckNcclHellos, SaysWhoCannotBeJoined) {
  EXPECT_EQ(Words({Hello(22809, "GPU-a")}), "ok");
  EXPECT_EQ(Words({Hello(22809, "GPU-a"), Hello(22807, "GPU-b"), Hello(22809, "GPU-c")}), "ok");
  EXPECT_EQ(Words({Hello(22809, "GPU-a"), Hello(22809, "GPU-b"), Hello(23007, "GPU-c")}),
            "NCCL differs: rank 0 has 2.28.9, rank 2 has 2.30.7");
  EXPECT_EQ(Words({Hello(22809, "GPU-a"), Hello(22809, "GPU-b"), Hello(22809, "GPU-b")}),
            "rank 1 and rank 2 would both use GPU-b, and NCCL takes one rank on a GPU");
  EXPECT_EQ(Words({Hello(22809, "GPU-a"), Hello(22809, "GPU-b", true)}),
            "rank 1 cannot join: an earlier call of NCCL has not returned there");
}

TEST(CheckNcclHellos, LongNamesAreCutAndStillTold) {
  const std::string slice = "MIG-" + std::string(100, 'x');
  EXPECT_EQ(Words({Hello(22809, slice), Hello(22809, slice)}).substr(0, 39),
            "rank 0 and rank 1 would both use MIG-xx");
}

}  // namespace
}  // namespace lockstep::runtime
