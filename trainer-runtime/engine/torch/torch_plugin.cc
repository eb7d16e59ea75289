#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine_export.h"
#include "trainer-runtime/engine/torch/torch_engine.h"

namespace lockstep::runtime {
namespace {

Result<std::unique_ptr<Engine>> Create(std::string_view spec_json) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainingSpec spec, ParseTrainingSpec(spec_json));
  return MakeTorchEngine(spec);
}

}  // namespace
}  // namespace lockstep::runtime

extern "C" __attribute__((visibility("default"))) const LockstepEngineApi* LockstepEnginePlugin() {
  return lockstep::runtime::ExportEngine<lockstep::runtime::Create>();
}
