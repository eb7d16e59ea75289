// A plug-in whose engine is as far from the host as one on a GPU.
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine_export.h"
#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/engine/testing/fake_device_engine.h"

namespace lockstep::runtime {
namespace {

Result<std::unique_ptr<Engine>> Create(std::string_view spec_json) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainingSpec spec, ParseTrainingSpec(spec_json));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Engine> inner, MakeReferenceEngine(spec));
  return MakeFakeDeviceEngine(std::move(inner));
}

}  // namespace
}  // namespace lockstep::runtime

extern "C" __attribute__((visibility("default"))) const LockstepEngineApi* LockstepEnginePlugin() {
  return lockstep::runtime::ExportEngine<lockstep::runtime::Create>();
}
