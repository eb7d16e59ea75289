// A plug-in of another release: only the version may be read from its table.
#include "trainer-runtime/engine/engine_abi.h"

extern "C" __attribute__((visibility("default"))) const LockstepEngineApi* LockstepEnginePlugin() {
  static const LockstepEngineApi api = [] {
    LockstepEngineApi old{};
    old.abi_version = LOCKSTEP_ENGINE_ABI_VERSION + 1;
    return old;
  }();
  return &api;
}
