// A plug-in whose numeric library throws while an engine is made.
#include <stdexcept>

#include "trainer-runtime/engine/engine_export.h"

namespace lockstep::runtime {
namespace {

Result<std::unique_ptr<Engine>> Create(std::string_view /*spec_json*/) {
  throw std::runtime_error("no such operator: aten::lockstep");
}

}  // namespace
}  // namespace lockstep::runtime

extern "C" __attribute__((visibility("default"))) const LockstepEngineApi* LockstepEnginePlugin() {
  return lockstep::runtime::ExportEngine<lockstep::runtime::Create>();
}
