// A plug-in without LibTorch: tests load it where the real one would take long or is not built.
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine_export.h"
#include "trainer-runtime/engine/reference_engine.h"

namespace lockstep::runtime {
namespace {

Result<std::unique_ptr<Engine>> Create(std::string_view spec_json) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainingSpec spec, ParseTrainingSpec(spec_json));
  return MakeReferenceEngine(spec);
}

}  // namespace
}  // namespace lockstep::runtime

extern "C" __attribute__((visibility("default"))) const LockstepEngineApi* LockstepEnginePlugin() {
  return lockstep::runtime::ExportEngine<lockstep::runtime::Create>();
}
