#include "trainer-runtime/engine/plugin_engine.h"

#include <array>
#include <dlfcn.h>
#include <limits>
#include <optional>
#include <unistd.h>
#include <utility>

#include "trainer-runtime/engine/engine_abi.h"

namespace lockstep::runtime {
namespace {

// What there is to say of a plug-in that is not there.
struct PluginFile {
  const char* name;
  const char* needs;        // to be built
  const char* to_load;      // to be loaded
  const char* how_to_have;  // that
};

constexpr PluginFile kFiles[] = {
    {"liblockstep-engine.so",
     "libtorch-dev and libopenblas0-pthread",
     "the Debian packages libtorch1.13 and libopenblas0-pthread",
     "apt-get install libtorch1.13 libopenblas0-pthread"},
    {"liblockstep-engine-cuda.so",
     "scripts/install.sh cuda torch",
     "the wheels of PyTorch and CUDA in the folder lockstep-engine-cuda beside it",
     "pip install --target lockstep-engine-cuda torch"}};

const PluginFile& FileOf(EngineDevice device) {
  return kFiles[device == EngineDevice::kCpu ? 0 : 1];
}

Error FromPlugin(LockstepEngineCode code, const LockstepEngineError& error) {
  ErrorCode translated = ErrorCode::kInternal;
  if (code == kLockstepEngineInvalidArgument) {
    translated = ErrorCode::kInvalidArgument;
  } else if (code == kLockstepEngineOutOfMemory) {
    translated = ErrorCode::kResourceExhausted;
  } else if (code == kLockstepEngineUnavailable) {
    translated = ErrorCode::kUnavailable;
  } else if (code == kLockstepEngineNotFound) {
    translated = ErrorCode::kNotFound;
  }
  return Error(translated, error.message).WithField(error.field);
}

LockstepEngineBatch ToPlugin(const Batch& batch) {
  return {.inputs = batch.inputs.data(),
          .input_count = batch.inputs.size(),
          .labels = batch.labels.data(),
          .label_count = batch.labels.size(),
          .sample_count = batch.sample_count};
}

LockstepEnginePart ToPlugin(EnginePart part) {
  return part == EnginePart::kState ? kLockstepEngineState : kLockstepEngineGradients;
}

// `context` is the host's StepOptions::on_ready.
void CallReady(void* context, int64_t offset, int64_t count, void* made) noexcept {
  (*static_cast<const GradientsReady*>(context))(offset, count, made);
}

// `context` is the host's StepOptions::next.
int32_t CallNext(void* context, LockstepEngineBatch* batch) noexcept {
  const auto& next = *static_cast<const std::function<std::optional<Batch>()>*>(context);
  const std::optional<Batch> given = next();
  *batch = ToPlugin(given.value_or(Batch{}));
  return given.has_value() ? 1 : 0;
}

LockstepEngineStepOptions ToPlugin(const StepOptions& options) {
  // Handed back to CallReady alone, which takes it for what it is.
  void* const context = const_cast<GradientsReady*>(&options.on_ready);
  void* const next_context = const_cast<std::function<std::optional<Batch>()>*>(&options.next);
  const GuardedUpdate update = options.update.value_or(GuardedUpdate{});
  return {.gradient_scale = options.gradient_scale,
          .dropout_seed = options.dropout_seed,
          .first_sample = options.first_sample,
          .on_ready = options.on_ready ? &CallReady : nullptr,
          .ready_context = context,
          .ready_at = options.ready_at.data(),
          .ready_at_count = options.ready_at.size(),
          .loss_scale = options.loss_scale,
          .has_update = options.update.has_value() ? 1 : 0,
          .update_needs_finite = update.needs_finite ? 1 : 0,
          .update_number = update.number,
          .update_norm_max = update.norm_max.value_or(std::numeric_limits<double>::infinity()),
          .is_awaited = options.is_awaited ? 1 : 0,
          .next = options.next ? &CallNext : nullptr,
          .next_context = next_context,
          .is_prefetched = options.is_prefetched ? 1 : 0};
}

EngineBuffer FromPlugin(const LockstepEngineBuffer& buffer) {
  const bool is_on_host = buffer.memory == kLockstepEngineHostMemory;
  const bool is_double = buffer.type == kLockstepEngineFloat64;
  return {.address = buffer.address,
          .byte_count = buffer.byte_count,
          .type = is_double ? NumberType::kFloat64 : NumberType::kFloat32,
          .memory = is_on_host ? MemoryKind::kHost : MemoryKind::kCuda,
          .device = buffer.device};
}

// An Engine on the other side of the C functions.
class PluginEngine final : public Engine {
 public:
  PluginEngine(const LockstepEngineApi& api, LockstepEngineHandle* handle)
      : api_(api), handle_(handle) {}

  PluginEngine(const PluginEngine&) = delete;
  PluginEngine& operator=(const PluginEngine&) = delete;

  ~PluginEngine() override { api_.destroy(handle_); }

  std::string Description() const override { return api_.description(handle_); }

  std::vector<TensorView> Tensors() override {
    std::vector<TensorView> views;
    const uint64_t count = api_.tensor_count(handle_);
    for (uint64_t i = 0; i < count; ++i) {
      const LockstepEngineTensor tensor = api_.tensor(handle_, i);
      views.push_back(
          {.name = tensor.name,
           .kind =
               tensor.is_optimizer_slot != 0 ? TensorKind::kOptimizerSlot : TensorKind::kParameter,
           .shape = std::vector<int64_t>(tensor.shape, tensor.shape + tensor.dimension_count),
           .data = std::span<float>(tensor.data, tensor.element_count)});
    }
    return views;
  }

  std::span<float> Gradients() override {
    uint64_t count = 0;
    float* const data = api_.gradients(handle_, &count);
    return {data, count};
  }

  EngineBuffer GradientBuffer() override { return FromPlugin(api_.gradient_buffer(handle_)); }

  DeviceSums Sums() override {
    const LockstepEngineSums sums = api_.sums(handle_);
    return {FromPlugin(sums.numbers), sums.made, sums.after};
  }

  Status Measure() override {
    LockstepEngineError error{};
    return ToStatus(api_.measure(handle_, &error), error);
  }

  Result<StepResult> TakeStep() override {
    LockstepEngineStepResult result{};
    LockstepEngineError error{};
    const LockstepEngineCode code = api_.take_step(handle_, &result, &error);
    return ToResult(code, result, error);
  }

  Status ScaleGradients(float factor) override {
    LockstepEngineError error{};
    return ToStatus(api_.scale_gradients(handle_, factor, &error), error);
  }

  Status BringToHost(EnginePart part) override {
    LockstepEngineError error{};
    return ToStatus(api_.bring_to_host(handle_, ToPlugin(part), &error), error);
  }

  Status BringToDevice(EnginePart part) override {
    LockstepEngineError error{};
    return ToStatus(api_.bring_to_device(handle_, ToPlugin(part), &error), error);
  }

  Status LendGradients(std::span<float> memory) override {
    LockstepEngineError error{};
    const LockstepEngineCode code =
        api_.lend_gradients(handle_, memory.data(), memory.size(), &error);
    return ToStatus(code, error);
  }

  Status LendState(std::span<float> parameters, std::span<float> slots) override {
    LockstepEngineError error{};
    const LockstepEngineCode code = api_.lend_state(
        handle_, parameters.data(), parameters.size(), slots.data(), slots.size(), &error);
    return ToStatus(code, error);
  }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    const LockstepEngineBatch plain_batch = ToPlugin(batch);
    const LockstepEngineStepOptions plain_options = ToPlugin(options);
    LockstepEngineStepResult result{};
    LockstepEngineError error{};
    const LockstepEngineCode code =
        api_.compute_gradients(handle_, &plain_batch, &plain_options, &result, &error);
    return ToResult(code, result, error);
  }

  Status ApplyUpdate(int64_t update_number) override {
    LockstepEngineError error{};
    const LockstepEngineCode code = api_.apply_update(handle_, update_number, &error);
    return ToStatus(code, error);
  }

  Result<StepResult> Evaluate(const Batch& batch) override {
    const LockstepEngineBatch plain_batch = ToPlugin(batch);
    LockstepEngineStepResult result{};
    LockstepEngineError error{};
    const LockstepEngineCode code = api_.evaluate(handle_, &plain_batch, &result, &error);
    return ToResult(code, result, error);
  }

  std::optional<std::string> TakeNotice() override {
    const char* const notice = api_.take_notice(handle_);
    return notice != nullptr ? std::optional<std::string>(notice) : std::nullopt;
  }

 private:
  static Status ToStatus(LockstepEngineCode code, const LockstepEngineError& error) {
    return code == kLockstepEngineOk ? OkStatus() : Status(FromPlugin(code, error));
  }

  static Result<StepResult> ToResult(LockstepEngineCode code,
                                     const LockstepEngineStepResult& result,
                                     const LockstepEngineError& error) {
    if (code != kLockstepEngineOk) {
      return FromPlugin(code, error);
    }
    return StepResult{.loss_sum = result.loss_sum,
                      .correct_count = result.correct_count,
                      .overflow_count = result.overflow_count,
                      .gradient_length = result.gradient_length,
                      .is_updated = result.is_updated != 0};
  }

  const LockstepEngineApi& api_;
  LockstepEngineHandle* const handle_;
};

Error MissingPlugin(const EnginePluginOptions& options) {
  const PluginFile& file = FileOf(options.device);
  std::string message = std::string("the numeric engine ") + file.name + " was not found; tried";
  for (const std::string& candidate : EnginePluginCandidates(options)) {
    message += " " + candidate;
  }
  return Error(ErrorCode::kNotFound,
               message + ". Put it beside lockstep-runtime (building it needs " + file.needs +
                   "), and install " + file.to_load + " to run it");
}

Error Unloadable(const PluginFile& file, const std::string& path, const std::string& reason) {
  // The loader says no more where it lacks address space; on a disk without the right to execute it
  // adds why.
  const bool lacks_memory = reason.ends_with("failed to map segment from shared object") ||
                            reason.find("annot allocate memory") != std::string::npos;
  if (lacks_memory) {
    return Error(ErrorCode::kResourceExhausted,
                 "not enough memory to load the numeric engine " + path + ": " + reason +
                     "; a low ulimit -v is one cause");
  }
  return Error(ErrorCode::kNotFound,
               "cannot load the numeric engine " + path + ": " + reason + ". It needs " +
                   file.to_load + " (" + file.how_to_have + ")");
}

}  // namespace

EnginePlugin::EnginePlugin(const LockstepEngineApi* api, std::string path)
    : api_(api), path_(std::move(path)) {}

std::vector<std::string> EnginePluginCandidates(const EnginePluginOptions& options) {
  if (!options.path.empty()) {
    return {options.path};
  }
  const std::string name = FileOf(options.device).name;
  std::vector<std::string> candidates;
  if (!options.executable_directory.empty()) {
    candidates.push_back(options.executable_directory + "/" + name);
    candidates.push_back(options.executable_directory + "/../lib/lockstep/" + name);
  }
  candidates.push_back(name);
  return candidates;
}

Result<EnginePlugin> EnginePlugin::Load(const EnginePluginOptions& options) {
  std::string path;
  for (const std::string& candidate : EnginePluginCandidates(options)) {
    const bool is_left_to_loader = candidate.find('/') == std::string::npos;
    if (is_left_to_loader || ::access(candidate.c_str(), F_OK) == 0) {
      path = candidate;
      break;
    }
  }
  if (path.empty()) {
    return MissingPlugin(options);
  }
  // Everything is resolved now: a library that does not fit is an error here and not a crash in the
  // middle of training. (Lazy binding would save nothing: Debian links LibTorch with -z now.)
  // Local, so that LibTorch's C++ library and this program's own never see each other's symbols.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    const std::string text = reason != nullptr ? reason : "unknown reason";
    const PluginFile& file = FileOf(options.device);
    const bool is_plugin_itself = text.rfind(std::string(file.name) + ":", 0) == 0;
    return is_plugin_itself ? MissingPlugin(options) : Unloadable(file, path, text);
  }
  void* const symbol = ::dlsym(library, LOCKSTEP_ENGINE_ENTRY_NAME);
  if (symbol == nullptr) {
    return Error(ErrorCode::kCorrupt,
                 path + " is not a numeric engine: it lacks " + LOCKSTEP_ENGINE_ENTRY_NAME);
  }
  const LockstepEngineApi* const api = reinterpret_cast<LockstepEngineEntry>(symbol)();
  if (api->abi_version != LOCKSTEP_ENGINE_ABI_VERSION) {
    return Error(ErrorCode::kMismatch,
                 path + " has version " + std::to_string(api->abi_version) +
                     " of the engine interface, but this program needs version " +
                     std::to_string(LOCKSTEP_ENGINE_ABI_VERSION) +
                     ": install both from the same release");
  }
  return EnginePlugin(api, path);
}

Result<std::unique_ptr<Engine>> EnginePlugin::MakeEngine(std::string_view spec_json) const {
  LockstepEngineHandle* handle = nullptr;
  LockstepEngineError error{};
  const LockstepEngineCode code = api_->create(spec_json.data(), spec_json.size(), &handle, &error);
  if (code != kLockstepEngineOk) {
    return FromPlugin(code, error);
  }
  auto engine = std::make_unique<PluginEngine>(*api_, handle);
  const LockstepEngineNumberType type = api_->gradient_buffer(handle).type;
  if (type != kLockstepEngineFloat32) {
    return Error(ErrorCode::kMismatch,
                 path_ + " has gradients of number type " + std::to_string(type) +
                     ", but this program can sum only float32 (" +
                     std::to_string(kLockstepEngineFloat32) + ")");
  }
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace lockstep::runtime
