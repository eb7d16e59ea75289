#include "trainer-runtime/collectives/nccl/nccl_reducer.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// What no sum in another order has: every rank's values differ in size.
std::vector<float> Gradients(int rank, int step, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float unit = 1.0F / static_cast<float>(1 + i % 97 + static_cast<std::size_t>(step));
    values[i] = unit * static_cast<float>(rank + 1) * (i % 2 == 0 ? 1.0F : -3.0e5F);
  }
  return values;
}

// Sums by NCCL and by the communicator, and compares the bytes. Buckets of `bucket` elements.
Result<std::string> CompareSteps(Communicator& control,
                                 GradientReducer& reducer,
                                 std::size_t count,
                                 std::size_t bucket) {
  for (int step = 0; step < 5; ++step) {
    std::vector<float> by_nccl = Gradients(control.rank(), step, count);
    std::vector<float> expected = by_nccl;
    for (std::size_t begin = 0; begin < count; begin += bucket) {
      const std::size_t size = std::min(bucket, count - begin);
      LOCKSTEP_RETURN_IF_ERROR(reducer.Enqueue(std::span(by_nccl).subspan(begin, size), Soon()));
    }
    LOCKSTEP_RETURN_IF_ERROR(reducer.Finish(Soon()));
    LOCKSTEP_RETURN_IF_ERROR(
        control.AllReduce(expected.data(), count, DataType::kFloat32, ReduceOp::kSum, Soon()));
    if (std::memcmp(by_nccl.data(), expected.data(), count * sizeof(float)) != 0) {
      return std::string("step " + std::to_string(step) + " differs");
    }
  }
  return std::string("equal");
}

TEST(NcclReducer, SumsAsTheCommunicatorDoes) {
  for (const Backend control : {Backend::kSharedMemory, Backend::kTcp}) {
    for (const int world_size : {1, 2, 4}) {
      for (const std::size_t bucket : {std::size_t{700}, std::size_t{1} << 20U}) {
        NcclGangOptions options;
        options.world_size = world_size;
        options.control = control;
        options.element_count = 20000;  // more than a chunk of the double
        const auto ends = RunNcclGang(
            options, [&](Communicator& communicator, GradientReducer& reducer, NcclGround&) {
              return CompareSteps(communicator, reducer, options.element_count, bucket);
            });
        for (const NcclRankEnd& end : ends) {
          EXPECT_EQ(end.text, "equal") << world_size << " ranks, buckets of " << bucket;
        }
      }
    }
  }
}

struct LateWrite {
  std::span<float> values;
  int rank;
  int step;
};

void WriteLate(void* data) {
  const auto* const late = static_cast<LateWrite*>(data);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the stream's, not the test's
  const std::vector<float> made = Gradients(late->rank, late->step, late->values.size());
  std::copy(made.begin(), made.end(), late->values.begin());
}

bool SumsOn(const GradientReducer& reducer, const std::vector<int>& devices) {
  return reducer.SumsOnDevices(devices);
}

Status EnqueueOne(GradientReducer& reducer, const DeviceBucket& bucket) {
  return reducer.EnqueueOnDevices({&bucket, 1}, Soon());
}

// Sums what lies on the device and is made there after the call.
Result<std::string> SumOnDevice(Communicator& control,
                                GradientReducer& reducer,
                                NcclGround& ground) {
  constexpr std::size_t kCount = 5000;
  const CudaFunctions& cuda = ground.devices.front()->functions();
  LOCKSTEP_ASSIGN_OR_RETURN(const SharedObject driver, SharedObject::Open(FakeCudaFile()));
  LaunchHostFunction launch = nullptr;
  CudaAddress address = 0;
  CudaStreamHandle stream = nullptr;
  CudaEventHandle made = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(ground.devices.front()->MakeCurrent());
  if (!driver.Find("cuLaunchHostFunc", &launch) ||
      cuda.memory_allocate(&address, kCount * sizeof(float)) != 0 ||
      cuda.stream_create(&stream, 1) != 0 || cuda.event_create(&made, 0) != 0 ||
      !SumsOn(reducer, {0}) || SumsOn(reducer, {1}) || SumsOn(reducer, {0, 1})) {
    return std::string("no device");
  }
  const std::span<float> values(reinterpret_cast<float*>(address), kCount);  // the double's is ours
  std::string said = "equal";
  for (int step = 0; step < 3 && said == "equal"; ++step) {
    std::ranges::fill(values, 0.0F);
    LateWrite late{values, control.rank(), step};
    launch(stream, WriteLate, &late);
    cuda.event_record(made, stream);
    for (const std::size_t begin : {std::size_t{3000}, std::size_t{0}}) {
      const std::size_t size = begin == 0 ? 3000 : kCount - begin;
      LOCKSTEP_RETURN_IF_ERROR(EnqueueOne(reducer, {values.data() + begin, size, made}));
    }
    LOCKSTEP_RETURN_IF_ERROR(reducer.Finish(Soon()));
    std::vector<float> expected = Gradients(control.rank(), step, kCount);
    LOCKSTEP_RETURN_IF_ERROR(
        control.AllReduce(expected.data(), kCount, DataType::kFloat32, ReduceOp::kSum, Soon()));
    said = std::ranges::equal(values, expected) ? said : "differs";
  }
  cuda.stream_destroy(stream);
  cuda.event_destroy(made);
  cuda.memory_free(address);
  return said;
}

TEST(NcclReducer, GradientsOnADeviceAreSummedThereOnceTheyAreMade) {
  for (const int world_size : {1, 3}) {
    NcclGangOptions options;
    options.world_size = world_size;
    options.element_count = 0;  // nothing is staged
    for (const NcclRankEnd& end : RunNcclGang(options, SumOnDevice)) {
      EXPECT_EQ(end.text, "equal");
    }
  }
}

TEST(NcclReducer, EveryReleaseSinceNonBlockingCommunicatorsWillDo) {
  for (const char* version : {"2.17", "2.26", "2.27", "2.28", "2.30"}) {
    NcclGangOptions options;
    options.world_size = 2;
    options.version = version;
    options.element_count = 100;
    const auto ends = RunNcclGang(
        options, [&](Communicator& communicator, GradientReducer& reducer, NcclGround&) {
          return CompareSteps(communicator, reducer, options.element_count, 64);
        });
    EXPECT_EQ(ends[0].text, "equal") << version;
    EXPECT_EQ(ends[1].text, "equal") << version;
  }
}

TEST(NcclReducer, SaysHowSumsTravel) {
  NcclGangOptions options;
  options.world_size = 1;
  options.version = "2.28";
  const auto ends = RunNcclGang(options, [](Communicator&, GradientReducer& reducer, NcclGround&) {
    return Result<std::string>(std::string(reducer.BackendName()) + " " + reducer.Detail());
  });
  EXPECT_THAT(ends[0].text, StartsWith("nccl NCCL 2.28.9 ("));
  EXPECT_THAT(ends[0].text, HasSubstr("split, shrink, window, revoke, on GPU-"));
}

TEST(NcclReducer, TwoRanksOnOneGpuAreRefusedByName) {
  ::setenv("FAKE_CUDA_UUID", "7", 1);
  NcclGangOptions options;
  const auto ends = RunNcclGang(
      options, [](Communicator&, GradientReducer&, NcclGround&) { return std::string("joined"); });
  ::unsetenv("FAKE_CUDA_UUID");
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.code, static_cast<int>(ErrorCode::kInvalidArgument));
    EXPECT_THAT(end.text, HasSubstr("rank 0 and rank 1 would both use GPU-07000000-"));
  }
}

// NCCL refuses them, too, but only once all have begun to join.
TEST(NcclReducer, RanksWhoseNcclDiffersInThePatchAreRefusedByName) {
  NcclGangOptions options;
  options.world_size = 2;
  options.versions = {"2.28", "2.28.7"};
  const auto ends = RunNcclGang(
      options, [](Communicator&, GradientReducer&, NcclGround&) { return std::string("joined"); });
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.code, static_cast<int>(ErrorCode::kMismatch));
    EXPECT_THAT(end.text,
                HasSubstr("the version of NCCL differs: rank 0 has 2.28.9, rank 1 has 2.28.7"));
  }
}

TEST(NcclReducer, StopEndsJoining) {
  // No other rank: joining would wait for it for ever.
  auto control = MakeCommunicator(CommunicatorOptions{}, Soon()).value();
  ::setenv("FAKE_NCCL_FAULT", "slow-init@ms=3600000", 1);
  NcclReducerOptions options;
  options.ground = MakeFakeGround("2.30");
  options.control = control.get();
  options.is_stopped = [] { return true; };
  const auto joined = JoinNccl(options, Deadline::After(SteadyNow(), std::chrono::minutes(15)));
  ::unsetenv("FAKE_NCCL_FAULT");
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().code(), ErrorCode::kAborted);
  EXPECT_THAT(joined.error().ToString(),
              AllOf(HasSubstr("rank 0: joining 1 ranks with NCCL 2.30.7 on GPU-"),
                    HasSubstr(", epoch 0, failed after "),
                    HasSubstr(" s: joining was stopped on request")));
}

}  // namespace
}  // namespace lockstep::runtime
