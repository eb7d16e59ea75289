#pragma once

#include <cstdint>

// What crosses between lockstep-runtime (static C++ library, no numeric library) and
// liblockstep-engine.so (shared C++ library, LibTorch): C functions and plain data only. No C++
// object, no exception and no allocation that the other side would have to free crosses.
//
// Any change to a struct below raises LOCKSTEP_ENGINE_ABI_VERSION; the two files are always shipped
// together, so there is no compatibility to keep, only a mix-up to detect.
#define LOCKSTEP_ENGINE_ABI_VERSION 9

// The plug-in's one exported symbol, of type LockstepEngineEntry.
#define LOCKSTEP_ENGINE_ENTRY_NAME "LockstepEnginePlugin"

extern "C" {

struct LockstepEngineHandle;  // an engine, known only to the plug-in

enum LockstepEngineCode : int32_t {
  kLockstepEngineOk = 0,
  kLockstepEngineInvalidArgument = 1,
  kLockstepEngineOutOfMemory = 2,
  kLockstepEngineInternal = 3,
  kLockstepEngineUnavailable = 4,  // this engine cannot do that
  kLockstepEngineNotFound = 5,     // what it computes on, or with, is not there
};

enum LockstepEngineNumberType : int32_t { kLockstepEngineFloat32 = 0, kLockstepEngineFloat64 = 1 };

enum LockstepEngineMemory : int32_t {
  kLockstepEngineHostMemory = 0,
  kLockstepEngineCudaMemory = 1,
};

// EnginePart.
enum LockstepEnginePart : int32_t {
  kLockstepEngineState = 0,
  kLockstepEngineGradients = 1,
};

// EngineBuffer.
struct LockstepEngineBuffer {
  void* address;
  uint64_t byte_count;
  LockstepEngineNumberType type;
  LockstepEngineMemory memory;
  int32_t device;
};

// DeviceSums.
struct LockstepEngineSums {
  LockstepEngineBuffer numbers;
  void* made;
  void* after;
};

// Where a failing call leaves its reason: text and field path, cut to fit, always terminated.
// Owned by the caller.
struct LockstepEngineError {
  char message[1024];
  char field[256];
};

// Valid as long as the engine, or until lend_state.
struct LockstepEngineTensor {
  const char* name;
  int32_t is_optimizer_slot;  // 0 or 1
  int32_t dimension_count;
  const int64_t* shape;  // [dimension_count]
  float* data;           // the host's image
  uint64_t element_count;
};

struct LockstepEngineBatch {
  const float* inputs;
  uint64_t input_count;
  const float* labels;
  uint64_t label_count;
  int64_t sample_count;
};

struct LockstepEngineStepOptions {
  double gradient_scale;
  uint64_t dropout_seed;
  int64_t first_sample;
  // StepOptions::on_ready, called with `ready_context`; null: not wanted. Must not throw.
  void (*on_ready)(void* ready_context, int64_t offset, int64_t count, void* made);
  void* ready_context;
  const int64_t* ready_at;  // StepOptions::ready_at
  uint64_t ready_at_count;
  double loss_scale;  // StepOptions::loss_scale
  // StepOptions::update: of GuardedUpdate what follows.
  int32_t has_update;  // 0 or 1
  int32_t update_needs_finite;
  int64_t update_number;
  double update_norm_max;  // infinity: none
  int32_t is_awaited;      // 0 or 1
  // StepOptions::next, called with `next_context`; null: not wanted. Returns 1 and the batch, or 0.
  int32_t (*next)(void* next_context, LockstepEngineBatch* batch);
  void* next_context;
  int32_t is_prefetched;  // 0 or 1
};

struct LockstepEngineStepResult {
  double loss_sum;
  int64_t correct_count;
  int64_t overflow_count;
  double gradient_length;
  int32_t is_updated;  // 0 or 1
};

// The calls mean what the methods of Engine (engine.h) say. `error` is never null.
struct LockstepEngineApi {
  uint32_t abi_version;  // first in every version, so that it can always be read

  // `spec_json` is the training section (common/contract/training/training_spec.h), UTF-8.
  LockstepEngineCode (*create)(const char* spec_json,
                               uint64_t spec_byte_count,
                               LockstepEngineHandle** engine,
                               LockstepEngineError* error);
  void (*destroy)(LockstepEngineHandle* engine);

  // Valid as long as the engine.
  const char* (*description)(LockstepEngineHandle* engine);
  uint64_t (*tensor_count)(LockstepEngineHandle* engine);
  LockstepEngineTensor (*tensor)(LockstepEngineHandle* engine, uint64_t index);
  float* (*gradients)(LockstepEngineHandle* engine, uint64_t* element_count);  // the host's image
  LockstepEngineBuffer (*gradient_buffer)(LockstepEngineHandle* engine);
  LockstepEngineSums (*sums)(LockstepEngineHandle* engine);
  LockstepEngineCode (*measure)(LockstepEngineHandle* engine, LockstepEngineError* error);
  LockstepEngineCode (*take_step)(LockstepEngineHandle* engine,
                                  LockstepEngineStepResult* result,
                                  LockstepEngineError* error);
  LockstepEngineCode (*scale_gradients)(LockstepEngineHandle* engine,
                                        float factor,
                                        LockstepEngineError* error);
  LockstepEngineCode (*bring_to_host)(LockstepEngineHandle* engine,
                                      LockstepEnginePart part,
                                      LockstepEngineError* error);
  LockstepEngineCode (*bring_to_device)(LockstepEngineHandle* engine,
                                        LockstepEnginePart part,
                                        LockstepEngineError* error);

  LockstepEngineCode (*compute_gradients)(LockstepEngineHandle* engine,
                                          const LockstepEngineBatch* batch,
                                          const LockstepEngineStepOptions* options,
                                          LockstepEngineStepResult* result,
                                          LockstepEngineError* error);
  LockstepEngineCode (*apply_update)(LockstepEngineHandle* engine,
                                     int64_t update_number,
                                     LockstepEngineError* error);
  LockstepEngineCode (*evaluate)(LockstepEngineHandle* engine,
                                 const LockstepEngineBatch* batch,
                                 LockstepEngineStepResult* result,
                                 LockstepEngineError* error);

  // `memory` is the host's, [element_count] of float.
  LockstepEngineCode (*lend_gradients)(LockstepEngineHandle* engine,
                                       float* memory,
                                       uint64_t element_count,
                                       LockstepEngineError* error);
  // `parameters` and `slots` are the host's. Tensors that were asked for before are no longer
  // valid.
  LockstepEngineCode (*lend_state)(LockstepEngineHandle* engine,
                                   float* parameters,
                                   uint64_t parameter_count,
                                   float* slots,
                                   uint64_t slot_count,
                                   LockstepEngineError* error);

  // Engine::TakeNotice: null where there is none. Valid until the next call.
  const char* (*take_notice)(LockstepEngineHandle* engine);
};

using LockstepEngineEntry = const LockstepEngineApi* (*)();

}  // extern "C"
