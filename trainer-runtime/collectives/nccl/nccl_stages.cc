#include "trainer-runtime/collectives/nccl/nccl_stages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace lockstep::runtime {
namespace {

constexpr std::size_t kTrialEnds = 2;  // numbers of a sum that are looked at

// Waits until the stage is idle, and the communicator well.
Status AwaitSum(const CudaStage& stage,
                const NcclCommunicator& communicator,
                const WaitLimits& limits) {
  return WaitUntil(
      [&]() -> Result<bool> {
        const Result<bool> is_idle = stage.IsIdle();
        LOCKSTEP_RETURN_IF_ERROR(communicator.Check());
        return is_idle;
      },
      limits);
}

Error WrongSum(int rank_count, double found, const CudaStage& stage) {
  return Error(ErrorCode::kInternal,
               "NCCL's test failed on " + stage.device().uuid() +
                   ": the sum of the number 1 over " + std::to_string(rank_count) + " ranks is " +
                   std::to_string(found));
}

Status TryOneSum(int rank_count,
                 std::size_t count,
                 NcclCommunicator* communicator,
                 const NcclStages& trial,
                 const WaitLimits& limits) {
  std::vector<NcclCommunicator::Part> parts;
  for (const std::unique_ptr<CudaStage>& stage : trial) {
    LOCKSTEP_RETURN_IF_ERROR(stage->device().MakeCurrent());
    LOCKSTEP_RETURN_IF_ERROR(stage->PutOnes(count));
    parts.push_back({stage->device_address(0), stage->stream()});
  }
  LOCKSTEP_RETURN_IF_ERROR(communicator->AllReduce(parts, count, DataType::kFloat32, limits));
  for (const std::unique_ptr<CudaStage>& stage : trial) {
    LOCKSTEP_RETURN_IF_ERROR(stage->device().MakeCurrent());
    LOCKSTEP_RETURN_IF_ERROR(stage->FetchFloat(0, 0));
    LOCKSTEP_RETURN_IF_ERROR(stage->FetchFloat(count - 1, 1));
    LOCKSTEP_RETURN_IF_ERROR(AwaitSum(*stage, *communicator, limits));
    float ends[kTrialEnds] = {};
    std::memcpy(ends, stage->host(), sizeof(ends));
    for (const float end : ends) {
      if (end != static_cast<float>(rank_count)) {
        return WrongSum(rank_count, end, *stage);
      }
    }
  }
  return OkStatus();
}

}  // namespace

void FreeNcclStages(const NcclGround& ground, NcclStages stages) {
  const CudaDeviceKeeper keeper(*ground.devices.front());
  for (std::unique_ptr<CudaStage>& stage : stages) {
    if (ground.is_stuck.load()) {
      static_cast<void>(stage.release());
    }
  }
  stages.clear();
}

Result<NcclStages> MakeNcclStages(const NcclGround& ground, std::size_t byte_count) {
  const CudaDeviceKeeper keeper(*ground.devices.front());
  NcclStages stages;
  for (const auto& device : ground.devices) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::unique_ptr<CudaStage> stage,
        CudaStage::Make(device, std::max(stages.empty() ? byte_count : 0, sizeof(double))));
    stages.push_back(std::move(stage));
  }
  return stages;
}

Result<NcclStages> MakeTrialStages(const NcclGround& ground, std::span<const std::size_t> counts) {
  const CudaDeviceKeeper keeper(*ground.devices.front());
  const std::size_t largest = counts.empty() ? 0 : counts.back();
  NcclStages stages;
  for (const auto& device : ground.devices) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::unique_ptr<CudaStage> stage,
        CudaStage::Make(device, kTrialEnds * sizeof(float), largest * sizeof(float)));
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<std::size_t> TrialCounts(std::vector<std::size_t> bucket_counts) {
  for (std::size_t& count : bucket_counts) {
    count = std::min(count, kTrialBytesMax / sizeof(float));
  }
  std::ranges::sort(bucket_counts);
  const auto rest = std::ranges::unique(bucket_counts);
  bucket_counts.erase(rest.begin(), rest.end());
  if (bucket_counts.size() <= kTrialsMax) {
    return bucket_counts;
  }
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < kTrialsMax; ++i) {
    some.push_back(bucket_counts[i * (bucket_counts.size() - 1) / (kTrialsMax - 1)]);
  }
  return some;
}

Status TrySums(int rank_count,
               std::span<const std::size_t> counts,
               NcclCommunicator* communicator,
               const NcclStages& trial,
               const WaitLimits& limits) {
  const CudaDeviceKeeper keeper(trial.front()->device());
  for (const std::size_t count : counts) {
    const Status summed = TryOneSum(rank_count, count, communicator, trial, limits);
    if (!summed.ok()) {
      return Error(
          summed.error().code(),
          "a test sum of " + std::to_string(count * sizeof(float)) +
              " bytes, the size of a bucket of this job, failed: " + summed.error().message());
    }
  }
  return OkStatus();
}

Status SumOnes(int rank_count,
               NcclCommunicator* communicator,
               const NcclStages& stages,
               const WaitLimits& limits) {
  const CudaDeviceKeeper keeper(stages.front()->device());
  const double one = 1;
  std::vector<NcclCommunicator::Part> parts;
  for (const std::unique_ptr<CudaStage>& stage : stages) {
    LOCKSTEP_RETURN_IF_ERROR(stage->device().MakeCurrent());
    std::memcpy(stage->host(), &one, sizeof(one));
    LOCKSTEP_RETURN_IF_ERROR(stage->CopyToDevice(0, sizeof(one)));
    parts.push_back({stage->device_address(0), stage->stream()});
  }
  LOCKSTEP_RETURN_IF_ERROR(communicator->AllReduce(parts, 1, DataType::kFloat64, limits));
  for (const std::unique_ptr<CudaStage>& stage : stages) {
    LOCKSTEP_RETURN_IF_ERROR(stage->device().MakeCurrent());
    LOCKSTEP_RETURN_IF_ERROR(stage->CopyToHost(0, sizeof(one)));
    LOCKSTEP_RETURN_IF_ERROR(AwaitSum(*stage, *communicator, limits));
    double sum = 0;
    std::memcpy(&sum, stage->host(), sizeof(sum));
    if (sum != rank_count) {
      return WrongSum(rank_count, sum, *stage);
    }
  }
  return OkStatus();
}

}  // namespace lockstep::runtime
