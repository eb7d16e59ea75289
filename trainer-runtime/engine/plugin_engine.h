#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/engine/engine.h"

struct LockstepEngineApi;

namespace lockstep::runtime {

// What an engine computes on, which is a plug-in each.
enum class EngineDevice {
  kCpu,  // liblockstep-engine.so, on Debian's LibTorch
  kCuda  // liblockstep-engine-cuda.so, on that of PyTorch's wheel
};

struct EnginePluginOptions {
  // The plug-in's file (LOCKSTEP_ENGINE, read by the caller). Empty: the first that exists of
  // `<executable_directory>/<file>` and `<executable_directory>/../lib/lockstep/<file>`, else what
  // the system's loader finds under that name.
  std::string path;
  std::string executable_directory;
  EngineDevice device = EngineDevice::kCpu;
};

// A loaded plug-in. It stays loaded until the process ends: numeric libraries do not survive
// being unloaded. Copies name the same plug-in.
class EnginePlugin {
 public:
  // Loads the plug-in with all its libraries. Takes a quarter of a second with LibTorch, during
  // which the caller may do other work: it is safe on a thread of its own, and the result may be
  // used on another.
  // Errors: kNotFound (no such file, or a library it needs is missing: the message says what to
  // install), kMismatch (built for another ABI version; names both), kCorrupt (not a
  // plug-in).
  static Result<EnginePlugin> Load(const EnginePluginOptions& options);

  // An engine for a training section (JSON, common/contract/training/training_spec.h). It is used
  // on one thread and may outlive this object.
  // Errors: kInvalidArgument with the field at fault, kResourceExhausted (memory), kNotFound (no
  // such device, or not what it needs), kMismatch (gradients of another number type), kInternal.
  Result<std::unique_ptr<Engine>> MakeEngine(std::string_view spec_json) const;

  // The file or library name that was loaded, for logs.
  const std::string& path() const { return path_; }

 private:
  EnginePlugin(const LockstepEngineApi* api, std::string path);

  const LockstepEngineApi* api_;
  std::string path_;
};

// The files and names that Load tries, in order.
std::vector<std::string> EnginePluginCandidates(const EnginePluginOptions& options);

}  // namespace lockstep::runtime
