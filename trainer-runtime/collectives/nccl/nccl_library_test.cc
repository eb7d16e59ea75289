#include "trainer-runtime/collectives/nccl/nccl_library.h"

#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/cuda_device.h"
#include "trainer-runtime/collectives/nccl/nccl_communicator.h"
#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

using Names = std::vector<std::string>;

TEST(NcclLibrary, TellsReleasesApartByWhatTheyHave) {
  struct Row {
    const char* file;
    const char* version;
    Names features;
  };

  const Row rows[] = {
      {"2.17", "2.17.1", {}},
      {"2.26", "2.26.5", {"split"}},
      {"2.27", "2.27.3", {"split", "shrink", "window"}},
      {"2.28", "2.28.9", {"split", "shrink", "window", "revoke"}},
      {"2.30", "2.30.7", {"split", "shrink", "window", "revoke", "grow", "suspend"}},
  };
  for (const Row& row : rows) {
    const auto library = NcclLibrary::Open(FakeNcclFile(row.file));
    ASSERT_TRUE(library.ok()) << library.error().ToString();
    EXPECT_EQ((*library)->VersionText(), row.version);
    EXPECT_EQ((*library)->Features(), row.features) << row.version;
    const bool can_revoke = (*library)->comm_revoke != nullptr;
    EXPECT_EQ(can_revoke, row.features.size() >= 4) << row.version;
  }
}

TEST(NcclLibrary, DescribesItself) {
  EXPECT_EQ(NcclLibrary::Open(FakeNcclFile("2.26")).value()->Describe(),
            "NCCL 2.26.5 (" + FakeNcclFile("2.26") + "): split");
}

TEST(NcclLibrary, RefusesWhatCannotJoinWithoutBlocking) {
  const Error error = NcclLibrary::Open(FakeNcclFile("2.13")).error();
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.message(),
              HasSubstr("is NCCL 2.13.4, which cannot join ranks without blocking; expected 2.14"));
}

TEST(NcclLibrary, RefusesWhatIsNotThereOrNotNccl) {
  const Error absent = NcclLibrary::Open("libno-such-nccl.so.2").error();
  EXPECT_EQ(absent.code(), ErrorCode::kNotFound);
  EXPECT_THAT(absent.message(), HasSubstr("libno-such-nccl.so.2"));
  const Error other = NcclLibrary::Open("libm.so.6").error();
  EXPECT_EQ(other.code(), ErrorCode::kNotFound);
  EXPECT_THAT(other.message(), HasSubstr("is not NCCL"));
}

TEST(FormatNcclVersion, KnowsBothWaysOfCounting) {
  EXPECT_EQ(FormatNcclVersion(2708), "2.7.8");
  EXPECT_EQ(FormatNcclVersion(20903), "2.9.3");
  EXPECT_EQ(FormatNcclVersion(23203), "2.32.3");
}

class CudaDeviceTest : public testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("FAKE_CUDA_DEVICES");
    ::unsetenv("FAKE_CUDA_UUID");
    ::unsetenv("FAKE_CUDA_PRODUCT");
  }
};

TEST_F(CudaDeviceTest, IsNamedAsTheDevicePluginNamesIt) {
  ::setenv("FAKE_CUDA_UUID", "171", 1);
  ::setenv("FAKE_CUDA_DEVICES", "2", 1);
  const auto device = CudaDevice::OpenFirst(FakeCudaFile()).value();
  EXPECT_EQ(device->uuid(), "GPU-ab000000-0000-0000-0000-000000000000");
  EXPECT_EQ(device->visible_count(), 2);
}

// Else no job could name it: NVML writes "MIG-".
TEST_F(CudaDeviceTest, SliceOfAGpuIsNamedAsOne) {
  ::setenv("FAKE_CUDA_UUID", "171", 1);
  ::setenv("FAKE_CUDA_PRODUCT", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 1);
  EXPECT_EQ(CudaDevice::OpenFirst(FakeCudaFile()).value()->uuid(),
            "MIG-ab000000-0000-0000-0000-000000000000");
}

TEST_F(CudaDeviceTest, SaysWhatIsMissing) {
  ::setenv("FAKE_CUDA_DEVICES", "0", 1);
  const Error no_gpu = CudaDevice::OpenFirst(FakeCudaFile()).error();
  EXPECT_EQ(no_gpu.code(), ErrorCode::kNotFound);
  EXPECT_EQ(no_gpu.message(), "no GPU is visible to this process");
  const Error no_driver = CudaDevice::OpenFirst("libno-such-cuda.so.1").error();
  EXPECT_EQ(no_driver.code(), ErrorCode::kNotFound);
  EXPECT_THAT(no_driver.message(),
              HasSubstr("there is no NVIDIA driver here (libno-such-cuda.so.1"));
  EXPECT_EQ(CudaDevice::OpenFirst("libm.so.6").error().code(), ErrorCode::kNotFound);
}

TEST_F(CudaDeviceTest, WhatDoesNotFitIsRefusedInTheDriversWords) {
  const auto device = CudaDevice::OpenFirst(FakeCudaFile()).value();
  const Error error = CudaStage::Make(device, std::size_t{1} << 50U).error();
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(error.message(),
            "CUDA cannot pin 1125899906842624 bytes of host memory: out of memory");
}

// The real library on a machine without a GPU: it is read, refuses, and this process goes on.
TEST(RealNccl, IsReadAndRefusesClearlyWithoutAGpu) {
  const char* const file = std::getenv("LOCKSTEP_TEST_NCCL_LIBRARY");
  if (file == nullptr) {
    GTEST_SKIP() << "LOCKSTEP_TEST_NCCL_LIBRARY names no libnccl.so.2: scripts/test.sh --cuda "
                    "fetches one";
  }
  if (CudaDevice::OpenFirst().ok()) {
    GTEST_SKIP() << "there is a GPU here, which NCCL would use";
  }
  auto ground = std::make_shared<NcclGround>();
  ground->library = NcclLibrary::Open(file).value();
  EXPECT_GE(ground->library->version(), 21400);
  RecordProperty("nccl", ground->library->Describe());
  for (int attempt = 0; attempt < 2; ++attempt) {
    NcclSeat seat;
    ASSERT_EQ(ground->library->get_unique_id(&seat.id), nccl::kSuccess);
    const WaitLimits limits{Deadline::After(SteadyNow(), std::chrono::minutes(1)),
                            [] { return OkStatus(); }};
    const auto joined = NcclCommunicator::Join(ground, seat, limits);
    ASSERT_FALSE(joined.ok());
    std::printf("%s\n%s\n", ground->library->Describe().c_str(), joined.error().ToString().c_str());
    EXPECT_EQ(joined.error().code(), ErrorCode::kInternal);
    EXPECT_THAT(joined.error().message(), HasSubstr("NCCL says: unhandled cuda error"));
    EXPECT_FALSE(ground->is_stuck.load());
  }
}

}  // namespace
}  // namespace lockstep::runtime
