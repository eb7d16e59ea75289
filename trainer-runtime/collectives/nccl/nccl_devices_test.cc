// Processes that drive several GPUs each: one rank of NCCL's on each GPU, in groups, over the
// doubles of NCCL and driver, whose GPUs are apart as far as streams, events and contexts are.

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/testing/nccl_faults.h"
#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

constexpr std::size_t kReplicaElementCount = 3000;
constexpr std::size_t kFirstBucket = 1000;
constexpr int kDevices = 2;  // of each process

// One replica's gradients on its GPU, and the stream that makes them, with an event behind.
class Replica {
 public:
  explicit Replica(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {
    const CudaFunctions& cuda = device_->functions();
    EXPECT_TRUE(device_->MakeCurrent().ok());
    EXPECT_EQ(cuda.memory_allocate(&address_, kReplicaElementCount * sizeof(float)), 0);
    EXPECT_EQ(cuda.stream_create(&stream_, 1), 0);
    EXPECT_EQ(cuda.event_create(&event_, 0), 0);
  }

  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  ~Replica() {
    device_->functions().stream_destroy(stream_);
    device_->functions().event_destroy(event_);
    device_->functions().memory_free(address_);
  }

  // The double's memory is ours.
  std::span<float> values() { return {reinterpret_cast<float*>(address_), kReplicaElementCount}; }

  DeviceBucket Bucket(std::size_t offset, std::size_t count) {
    return {values().data() + offset, count, event_};
  }

  // All values become `value`, once the stream comes to it.
  void MakeLater(float value) {
    static const SharedObject driver = SharedObject::Open(FakeCudaFile()).value();
    LaunchHostFunction launch = nullptr;
    ASSERT_TRUE(driver.Find("cuLaunchHostFunc", &launch));
    made_ = value;
    launch(
        stream_,
        [](void* data) {
          auto* const replica = static_cast<Replica*>(data);
          std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the stream's
          std::ranges::fill(replica->values(), replica->made_);
        },
        this);
    ASSERT_TRUE(device_->MakeCurrent().ok());
    ASSERT_EQ(device_->functions().event_record(event_, stream_), 0);
  }

 private:
  std::shared_ptr<const CudaDevice> device_;
  CudaAddress address_ = 0;
  CudaStreamHandle stream_ = nullptr;
  CudaEventHandle event_ = nullptr;
  float made_ = 0;
};

std::vector<std::unique_ptr<Replica>> MakeReplicas(const NcclGround& ground) {
  std::vector<std::unique_ptr<Replica>> replicas;
  for (const auto& device : ground.devices) {
    replicas.push_back(std::make_unique<Replica>(device));
  }
  return replicas;
}

Status EnqueueAll(GradientReducer& reducer,
                  const std::vector<std::unique_ptr<Replica>>& replicas,
                  std::size_t offset,
                  std::size_t count,
                  Deadline deadline) {
  std::vector<DeviceBucket> buckets;
  for (const auto& replica : replicas) {
    buckets.push_back(replica->Bucket(offset, count));
  }
  return reducer.EnqueueOnDevices(buckets, deadline);
}

// Three steps of two buckets each. Replica i of rank r makes 10^(devices * r + i), so that a sum
// has a digit of each; whatever is missing or doubled can be read off it.
Result<std::string> ThreeStepsOnDevices(Communicator& control,
                                        GradientReducer& reducer,
                                        const NcclGround& ground,
                                        Duration timeout) {
  const auto replicas = MakeReplicas(ground);
  const auto device_count = static_cast<int>(replicas.size());
  float expected = 0;
  for (int i = 0; i < control.world_size() * device_count; ++i) {
    expected = 10 * expected + 1;
  }
  for (int step = 0; step < 3; ++step) {
    const Deadline deadline = Deadline::After(SteadyNow(), timeout);
    float own = 1;
    for (int i = 0; i < control.rank() * device_count; ++i) {
      own *= 10;
    }
    for (const auto& replica : replicas) {
      std::ranges::fill(replica->values(), -1.0F);
      replica->MakeLater(own);
      own *= 10;
    }
    LOCKSTEP_RETURN_IF_ERROR(
        EnqueueAll(reducer, replicas, kFirstBucket, kReplicaElementCount - kFirstBucket, deadline));
    LOCKSTEP_RETURN_IF_ERROR(EnqueueAll(reducer, replicas, 0, kFirstBucket, deadline));
    LOCKSTEP_RETURN_IF_ERROR(reducer.Finish(deadline));
    for (const auto& replica : replicas) {
      for (const float value : replica->values()) {
        if (value != expected) {
          return std::string("found " + std::to_string(value) + ", expected " +
                             std::to_string(expected));
        }
      }
    }
  }
  return std::string("summed");
}

TEST(NcclDevices, AllGpusOfAllProcessesHoldTheSum) {
  for (const char* version : {"2.17", "2.30"}) {
    for (const int world_size : {1, 2, 3}) {
      NcclGangOptions options;
      options.version = version;
      options.world_size = world_size;
      options.device_count = kDevices;
      const auto ends = RunNcclGang(
          options, [](Communicator& control, GradientReducer& reducer, NcclGround& ground) {
            return ThreeStepsOnDevices(control, reducer, ground, kOutOfReach);
          });
      for (const NcclRankEnd& end : ends) {
        EXPECT_EQ(end.text, "summed") << world_size << " processes, NCCL " << version;
      }
    }
  }
}

TEST(NcclDevices, SumsOnItsOwnGpusInTheirOrderAndNamesThem) {
  NcclGangOptions options;
  options.world_size = 1;
  options.device_count = kDevices;
  const auto ends =
      RunNcclGang(options, [](Communicator&, GradientReducer& reducer, NcclGround& ground) {
        const std::vector<int> right = {0, 1};
        const std::vector<int> turned = {1, 0};
        const std::vector<int> part = {0};
        const bool is_right = reducer.SumsOnDevices(right) && !reducer.SumsOnDevices(turned) &&
                              !reducer.SumsOnDevices(part);
        const std::string names =
            "on " + ground.devices[0]->uuid() + ", " + ground.devices[1]->uuid();
        return Result<std::string>(
            is_right && reducer.Detail().ends_with(names) ? "right" : reducer.Detail());
      });
  EXPECT_EQ(ends[0].text, "right");
}

// Which the real one may wait in for ever, and the tests above would not miss the group.
TEST(NcclDevices, SumsOfSeveralGpusOutsideOfAGroupAreRefusedByTheDouble) {
  NcclGangOptions options;
  options.world_size = 1;
  options.device_count = kDevices;
  const auto ends = RunNcclGang(
      options,
      [](Communicator&, GradientReducer& reducer, NcclGround& ground) -> Result<std::string> {
        auto& library = const_cast<NcclLibrary&>(*ground.library);  // this process's own
        library.group_start = [] { return nccl::Result{}; };
        library.group_end = [] { return nccl::Result{}; };
        const auto replicas = MakeReplicas(ground);
        LOCKSTEP_RETURN_IF_ERROR(EnqueueAll(reducer, replicas, 0, kReplicaElementCount, Soon()));
        LOCKSTEP_RETURN_IF_ERROR(reducer.Finish(Soon()));
        return std::string("summed");
      });
  EXPECT_THAT(ends[0].text, HasSubstr("sums of several devices outside of a group"));
}

// The engine's thread computes on, on its own GPU.
TEST(NcclDevices, LeavesTheCallingThreadItsDevice) {
  NcclGangOptions options;
  options.world_size = 1;
  options.device_count = kDevices;
  const auto ends = RunNcclGang(
      options,
      [](Communicator&, GradientReducer& reducer, NcclGround& ground) -> Result<std::string> {
        const auto replicas = MakeReplicas(ground);
        const CudaFunctions& cuda = ground.devices[0]->functions();
        void* before = nullptr;
        void* after = nullptr;
        LOCKSTEP_RETURN_IF_ERROR(ground.devices[0]->MakeCurrent());
        cuda.context_get(&before);
        LOCKSTEP_RETURN_IF_ERROR(EnqueueAll(reducer, replicas, 0, kReplicaElementCount, Soon()));
        cuda.context_get(&after);
        LOCKSTEP_RETURN_IF_ERROR(reducer.Finish(Soon()));
        return std::string(before != nullptr && before == after ? "its own" : "another's");
      });
  EXPECT_EQ(ends[0].text, "its own");
}

// --- Faults, on one of the four ranks of NCCL's: the second GPU of the first of two processes ---

class NcclDevicesFaultTest : public testing::TestWithParam<std::tuple<NcclFault, const char*>> {
 protected:
  std::vector<NcclRankEnd> Run() const {
    const auto& [fault, version] = GetParam();
    NcclGangOptions options;
    options.world_size = 2;
    options.device_count = kDevices;
    options.fault = fault.order;
    options.version = version;
    options.join_timeout = fault.timeout();
    return RunNcclGang(options,
                       [timeout = fault.timeout()](
                           Communicator& control, GradientReducer& reducer, NcclGround& ground) {
                         return ThreeStepsOnDevices(control, reducer, ground, timeout);
                       });
  }
};

INSTANTIATE_TEST_SUITE_P(Faults,
                         NcclDevicesFaultTest,
                         testing::Combine(testing::ValuesIn(NcclFaults()),
                                          testing::Values("2.17", "2.30")),
                         [](const auto& test) {
                           return NameOfTest(std::get<0>(test.param), std::get<1>(test.param));
                         });

TEST_P(NcclDevicesFaultTest, BothProcessesFailAtOnceAndSayWhy) {
  ExpectAllSayWhy(Run(), std::get<0>(GetParam()), 0);
}

TEST(NcclDevicesFault, GpuThatDoesNotJoinIsNamed) {
  NcclGangOptions options;
  options.world_size = 2;
  options.device_count = kDevices;
  options.fault = "fail-init@rank=1";
  const auto ends = RunNcclGang(
      options, [](Communicator&, GradientReducer&, NcclGround&) { return std::string("joined"); });
  for (const NcclRankEnd& end : ends) {
    EXPECT_THAT(end.text, HasSubstr("NCCL says on GPU-0001"));
  }
}

// One thread's word ends the sums of all GPUs of both processes.
TEST(NcclDevicesFault, AbortFromOneThreadEndsTheSumsOfAllGpus) {
  for (const char* version : {"2.27", "2.30"}) {
    NcclGangOptions options;
    options.world_size = 2;
    options.device_count = kDevices;
    options.version = version;
    options.fault = "hang@rank=2";
    const auto ends = RunNcclGang(
        options, [](Communicator& control, GradientReducer& reducer, NcclGround& ground) {
          std::jthread relay;
          if (control.rank() == 0) {
            relay = std::jthread([&reducer] {
              reducer.Abort(Error(ErrorCode::kPeerLost, "rank 1 is lost: the operator says so"));
            });
          }
          Result<std::string> ended = ThreeStepsOnDevices(control, reducer, ground, kOutOfReach);
          return ground.is_stuck.load() ? Result<std::string>(std::string("stuck")) : ended;
        });
    for (const NcclRankEnd& end : ends) {
      EXPECT_EQ(end.code, static_cast<int>(ErrorCode::kPeerLost));
      EXPECT_THAT(end.text, HasSubstr("rank 1 is lost: the operator says so"));
    }
  }
}

TEST(NcclDevicesFault, ProcessesWithOtherNumbersOfGpusAreRefusedByName) {
  NcclGangOptions options;
  options.world_size = 2;
  options.device_counts = {2, 1};
  const auto ends = RunNcclGang(
      options, [](Communicator&, GradientReducer&, NcclGround&) { return std::string("joined"); });
  for (const NcclRankEnd& end : ends) {
    EXPECT_EQ(end.code, static_cast<int>(ErrorCode::kMismatch));
    EXPECT_THAT(end.text, HasSubstr("the number of GPUs differs: rank 0 has 2, rank 1 has 1"));
  }
}

}  // namespace
}  // namespace lockstep::runtime
