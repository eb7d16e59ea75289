#pragma once

#include <memory>
#include <string_view>

#include "common/base/result.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/engine/engine_abi.h"

namespace lockstep::runtime {

using EngineCreator = Result<std::unique_ptr<Engine>> (*)(std::string_view spec_json);

// The C functions over the Engines that `creator` makes. Exceptions of the creator and of the
// engines end inside them and become codes.
LockstepEngineCode CreateExportedEngine(EngineCreator creator,
                                        std::string_view spec_json,
                                        LockstepEngineHandle** engine,
                                        LockstepEngineError* error) noexcept;
LockstepEngineApi ExportedCalls(decltype(LockstepEngineApi::create) create);

// The plug-in's side of engine_abi.h; the entry function returns it.
template <EngineCreator creator>
const LockstepEngineApi* ExportEngine() {
  static const LockstepEngineApi api = ExportedCalls([](const char* spec_json,
                                                        uint64_t spec_byte_count,
                                                        LockstepEngineHandle** engine,
                                                        LockstepEngineError* error) {
    return CreateExportedEngine(creator, {spec_json, spec_byte_count}, engine, error);
  });
  return &api;
}

}  // namespace lockstep::runtime
