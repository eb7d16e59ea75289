#include "trainer-runtime/engine/engine_export.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer-runtime/engine/engine.h"

// What the C functions hand out pointers into, beside the engine itself.
struct LockstepEngineHandle {
  std::unique_ptr<lockstep::runtime::Engine> engine;
  std::string description;
  std::vector<lockstep::runtime::TensorView> tensors;
  std::string notice;  // the last one
};

namespace lockstep::runtime {
namespace {

template <std::size_t capacity>
void CopyText(std::string_view text, char (&target)[capacity]) {
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::copy_n(text.data(), length, target);
  target[length] = '\0';
}

LockstepEngineCode Report(const Error& failure, LockstepEngineError* error) {
  // The receiver shows one line: the causes belong to it, the field travels apart.
  std::string message = failure.message();
  for (const Error* cause = failure.cause(); cause != nullptr; cause = cause->cause()) {
    message += ": " + cause->message();
  }
  CopyText(message, error->message);
  CopyText(failure.field(), error->field);
  switch (failure.code()) {
    case ErrorCode::kInvalidArgument:
      return kLockstepEngineInvalidArgument;
    case ErrorCode::kResourceExhausted:
      return kLockstepEngineOutOfMemory;
    case ErrorCode::kUnavailable:
      return kLockstepEngineUnavailable;
    case ErrorCode::kNotFound:
      return kLockstepEngineNotFound;
    default:
      return kLockstepEngineInternal;
  }
}

// Runs `call`, which returns a Status, and lets no exception out.
template <typename Call>
LockstepEngineCode Guard(LockstepEngineError* error, const Call& call) noexcept {
  try {
    const Status status = call();
    return status.ok() ? kLockstepEngineOk : Report(status.error(), error);
  } catch (const std::bad_alloc&) {
    CopyText("out of memory", error->message);
    return kLockstepEngineOutOfMemory;
  } catch (const std::exception& exception) {
    CopyText(exception.what(), error->message);
  } catch (...) {
    CopyText("unknown exception in the numeric library", error->message);
  }
  return kLockstepEngineInternal;
}

Batch FromPlain(const LockstepEngineBatch& batch) {
  return {.inputs = {batch.inputs, batch.input_count},
          .labels = {batch.labels, batch.label_count},
          .sample_count = batch.sample_count};
}

Status Take(const Result<StepResult>& result, LockstepEngineStepResult* plain) {
  if (!result.ok()) {
    return result.error();
  }
  *plain = {.loss_sum = result->loss_sum,
            .correct_count = result->correct_count,
            .overflow_count = result->overflow_count,
            .gradient_length = result->gradient_length,
            .is_updated = result->is_updated ? 1 : 0};
  return OkStatus();
}

void Destroy(LockstepEngineHandle* engine) {
  const std::unique_ptr<LockstepEngineHandle> owned(engine);
}

const char* Description(LockstepEngineHandle* engine) {
  return engine->description.c_str();
}

uint64_t TensorCount(LockstepEngineHandle* engine) {
  return engine->tensors.size();
}

LockstepEngineTensor Tensor(LockstepEngineHandle* engine, uint64_t index) {
  const TensorView& view = engine->tensors[index];
  return {.name = view.name.c_str(),
          .is_optimizer_slot = view.kind == TensorKind::kOptimizerSlot ? 1 : 0,
          .dimension_count = static_cast<int32_t>(view.shape.size()),
          .shape = view.shape.data(),
          .data = view.data.data(),
          .element_count = view.data.size()};
}

float* Gradients(LockstepEngineHandle* engine, uint64_t* element_count) {
  const std::span<float> gradients = engine->engine->Gradients();
  *element_count = gradients.size();
  return gradients.data();
}

LockstepEngineBuffer ToPlain(const EngineBuffer& buffer) {
  const bool is_on_host = buffer.memory == MemoryKind::kHost;
  const bool is_double = buffer.type == NumberType::kFloat64;
  return {.address = buffer.address,
          .byte_count = buffer.byte_count,
          .type = is_double ? kLockstepEngineFloat64 : kLockstepEngineFloat32,
          .memory = is_on_host ? kLockstepEngineHostMemory : kLockstepEngineCudaMemory,
          .device = buffer.device};
}

LockstepEngineBuffer GradientBuffer(LockstepEngineHandle* engine) {
  return ToPlain(engine->engine->GradientBuffer());
}

LockstepEngineSums Sums(LockstepEngineHandle* engine) {
  const DeviceSums sums = engine->engine->Sums();
  return {.numbers = ToPlain(sums.numbers), .made = sums.made, .after = sums.after};
}

LockstepEngineCode Measure(LockstepEngineHandle* engine, LockstepEngineError* error) {
  return Guard(error, [&] { return engine->engine->Measure(); });
}

LockstepEngineCode TakeStep(LockstepEngineHandle* engine,
                            LockstepEngineStepResult* result,
                            LockstepEngineError* error) {
  return Guard(error, [&] { return Take(engine->engine->TakeStep(), result); });
}

LockstepEngineCode ScaleGradients(LockstepEngineHandle* engine,
                                  float factor,
                                  LockstepEngineError* error) {
  return Guard(error, [&] { return engine->engine->ScaleGradients(factor); });
}

EnginePart FromPlain(LockstepEnginePart part) {
  return part == kLockstepEngineState ? EnginePart::kState : EnginePart::kGradients;
}

LockstepEngineCode BringToHost(LockstepEngineHandle* engine,
                               LockstepEnginePart part,
                               LockstepEngineError* error) {
  return Guard(error, [&] { return engine->engine->BringToHost(FromPlain(part)); });
}

LockstepEngineCode BringToDevice(LockstepEngineHandle* engine,
                                 LockstepEnginePart part,
                                 LockstepEngineError* error) {
  return Guard(error, [&] { return engine->engine->BringToDevice(FromPlain(part)); });
}

std::optional<GuardedUpdate> UpdateOf(const LockstepEngineStepOptions& options) {
  if (options.has_update == 0) {
    return std::nullopt;
  }
  GuardedUpdate update{.number = options.update_number,
                       .needs_finite = options.update_needs_finite != 0};
  if (std::isfinite(options.update_norm_max)) {
    update.norm_max = options.update_norm_max;
  }
  return update;
}

LockstepEngineCode ComputeGradients(LockstepEngineHandle* engine,
                                    const LockstepEngineBatch* batch,
                                    const LockstepEngineStepOptions* options,
                                    LockstepEngineStepResult* result,
                                    LockstepEngineError* error) {
  return Guard(error, [&] {
    StepOptions step{.gradient_scale = options->gradient_scale,
                     .dropout_seed = options->dropout_seed,
                     .first_sample = options->first_sample,
                     .ready_at = {options->ready_at, options->ready_at_count},
                     .loss_scale = options->loss_scale,
                     .update = UpdateOf(*options),
                     .is_awaited = options->is_awaited != 0,
                     .is_prefetched = options->is_prefetched != 0};
    if (options->on_ready != nullptr) {
      step.on_ready = [options](int64_t offset, int64_t count, void* made) {
        options->on_ready(options->ready_context, offset, count, made);
      };
    }
    if (options->next != nullptr) {
      step.next = [options]() -> std::optional<Batch> {
        LockstepEngineBatch next{};
        return options->next(options->next_context, &next) != 0 ? std::optional(FromPlain(next))
                                                                : std::nullopt;
      };
    }
    return Take(engine->engine->ComputeGradients(FromPlain(*batch), step), result);
  });
}

LockstepEngineCode ApplyUpdate(LockstepEngineHandle* engine,
                               int64_t update_number,
                               LockstepEngineError* error) {
  return Guard(error, [&] { return engine->engine->ApplyUpdate(update_number); });
}

LockstepEngineCode Evaluate(LockstepEngineHandle* engine,
                            const LockstepEngineBatch* batch,
                            LockstepEngineStepResult* result,
                            LockstepEngineError* error) {
  return Guard(error, [&] { return Take(engine->engine->Evaluate(FromPlain(*batch)), result); });
}

LockstepEngineCode LendGradients(LockstepEngineHandle* engine,
                                 float* memory,
                                 uint64_t element_count,
                                 LockstepEngineError* error) {
  return Guard(error, [&] { return engine->engine->LendGradients({memory, element_count}); });
}

LockstepEngineCode LendState(LockstepEngineHandle* engine,
                             float* parameters,
                             uint64_t parameter_count,
                             float* slots,
                             uint64_t slot_count,
                             LockstepEngineError* error) {
  return Guard(error, [&]() -> Status {
    LOCKSTEP_RETURN_IF_ERROR(
        engine->engine->LendState({parameters, parameter_count}, {slots, slot_count}));
    engine->tensors = engine->engine->Tensors();
    return OkStatus();
  });
}

const char* TakeNotice(LockstepEngineHandle* engine) {
  std::optional<std::string> notice = engine->engine->TakeNotice();
  if (!notice.has_value()) {
    return nullptr;
  }
  engine->notice = *std::move(notice);
  return engine->notice.c_str();
}

}  // namespace

LockstepEngineCode CreateExportedEngine(EngineCreator creator,
                                        std::string_view spec_json,
                                        LockstepEngineHandle** engine,
                                        LockstepEngineError* error) noexcept {
  return Guard(error, [&]() -> Status {
    auto handle = std::make_unique<LockstepEngineHandle>();
    LOCKSTEP_ASSIGN_OR_RETURN(handle->engine, creator(spec_json));
    handle->description = handle->engine->Description();
    handle->tensors = handle->engine->Tensors();
    *engine = handle.release();
    return OkStatus();
  });
}

LockstepEngineApi ExportedCalls(decltype(LockstepEngineApi::create) create) {
  return {.abi_version = LOCKSTEP_ENGINE_ABI_VERSION,
          .create = create,
          .destroy = Destroy,
          .description = Description,
          .tensor_count = TensorCount,
          .tensor = Tensor,
          .gradients = Gradients,
          .gradient_buffer = GradientBuffer,
          .sums = Sums,
          .measure = Measure,
          .take_step = TakeStep,
          .scale_gradients = ScaleGradients,
          .bring_to_host = BringToHost,
          .bring_to_device = BringToDevice,
          .compute_gradients = ComputeGradients,
          .apply_update = ApplyUpdate,
          .evaluate = Evaluate,
          .lend_gradients = LendGradients,
          .lend_state = LendState,
          .take_notice = TakeNotice};
}

}  // namespace lockstep::runtime
