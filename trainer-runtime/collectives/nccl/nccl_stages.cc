#include "trainer-runtime/collectives/nccl/nccl_stages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace lockstep::runtime {

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
    const Status done = WaitUntil(
        [&]() -> Result<bool> {
          const Result<bool> is_idle = stage->IsIdle();
          LOCKSTEP_RETURN_IF_ERROR(communicator->Check());
          return is_idle;
        },
        limits);
    LOCKSTEP_RETURN_IF_ERROR(done);
    double sum = 0;
    std::memcpy(&sum, stage->host(), sizeof(sum));
    if (sum != rank_count) {
      return Error(ErrorCode::kInternal,
                   "NCCL sums " + std::to_string(rank_count) + " ones to " + std::to_string(sum) +
                       " on " + stage->device().uuid());
    }
  }
  return OkStatus();
}

}  // namespace lockstep::runtime
