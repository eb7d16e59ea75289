#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine_export.h"
#include "trainer-runtime/engine/torch/autograd_engine.h"
#include "trainer-runtime/engine/torch/torch_calls.h"
#include "trainer-runtime/engine/torch_cuda/torch_cuda_device.h"

namespace lockstep::runtime {
namespace {

// The spec names the engine's one device by UUID, or none: then it is the first.
Result<std::unique_ptr<Engine>> Create(std::string_view spec_json) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainingSpec spec, ParseTrainingSpec(spec_json));
  if (spec.devices.size() > 1) {
    return Error(
               ErrorCode::kInvalidArgument,
               std::to_string(spec.devices.size()) + " devices found, expected one for each engine")
        .WithField("devices");
  }
  const std::string uuid = spec.devices.empty() ? "" : spec.devices.front();
  std::unique_ptr<TorchDevice> device;
  LOCKSTEP_RETURN_IF_ERROR(WithTorch([&]() -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(device, MakeCudaDevice(uuid, spec.precision));
    return OkStatus();
  }));
  return MakeAutogradEngine(spec, std::move(device));
}

}  // namespace
}  // namespace lockstep::runtime

extern "C" __attribute__((visibility("default"))) const LockstepEngineApi* LockstepEnginePlugin() {
  return lockstep::runtime::ExportEngine<lockstep::runtime::Create>();
}
