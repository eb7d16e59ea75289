// A plug-in whose engines are on GPUs of the driver's double: what a device's name ends with is its
// number, "GPU-test-1".
#include <cstdlib>
#include <string>

#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine_export.h"
#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/strategy/testing/fake_gpu_engine.h"

namespace lockstep::runtime {
namespace {

int NumberOf(const TrainingSpec& spec) {
  const std::string name = spec.devices.empty() ? "0" : spec.devices.front();
  return std::atoi(name.substr(name.rfind('-') + 1).c_str());
}

Result<std::unique_ptr<Engine>> Create(std::string_view spec_json) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainingSpec spec, ParseTrainingSpec(spec_json));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Engine> inner, MakeReferenceEngine(spec));
  return MakeFakeGpuEngine(std::move(inner), NumberOf(spec));
}

}  // namespace
}  // namespace lockstep::runtime

extern "C" __attribute__((visibility("default"))) const LockstepEngineApi* LockstepEnginePlugin() {
  return lockstep::runtime::ExportEngine<lockstep::runtime::Create>();
}
