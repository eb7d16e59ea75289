#pragma once

#include <cstdint>

#include "common/base/host_device.h"
#include "trainer-runtime/engine/guarded_step.h"
#include "trainer-runtime/engine/update_element.h"

// What one thread of a kernel does, in plain C++, so that a CPU can play all threads one after the
// other. Thread t of n takes packs t, t + n, t + 2n, ... of kPackWidth elements, which a GPU reads
// and writes by one instruction; what is left over, fewer than a pack, goes to the first threads.

namespace lockstep::runtime {

constexpr int kPackWidth = 4;

// One update of `count` elements, all in memory of the device that runs it.
struct UpdateBuffers {
  int64_t count = 0;
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* first_slot = nullptr;   // null: the optimizer has none
  float* second_slot = nullptr;  // null: the optimizer has no second one
  float inverse_scale = 1;       // 1 / loss scale: gradients are multiplied by it
  // Not zero there: nothing is changed, the step is skipped. Null: never.
  const int* found_non_finite = nullptr;
  // Gradients are multiplied by what is there after that. Null: by nothing.
  const float* clip_factor = nullptr;
};

// Which thread of how many.
struct UpdateThread {
  int64_t index = 0;
  int64_t count = 1;
};

// kPackWidth where all buffers start at a multiple of a pack's bytes, else 1. All elements can be
// reached with either.
LOCKSTEP_HOST_DEVICE inline int PackWidthOf(const UpdateBuffers& buffers) {
  const auto bits = reinterpret_cast<uintptr_t>(buffers.parameters) |
                    reinterpret_cast<uintptr_t>(buffers.gradients) |
                    reinterpret_cast<uintptr_t>(buffers.first_slot) |
                    reinterpret_cast<uintptr_t>(buffers.second_slot);
  return bits % (kPackWidth * sizeof(float)) == 0 ? kPackWidth : 1;
}

// Aligned, so that a GPU's compiler takes one instruction for it.
template <int kWidth>
struct alignas(kWidth * sizeof(float)) Pack {
  float values[kWidth];
};

template <int kWidth>
LOCKSTEP_HOST_DEVICE inline Pack<kWidth> LoadPack(const float* from) {
  return *reinterpret_cast<const Pack<kWidth>*>(from);
}

template <int kWidth>
LOCKSTEP_HOST_DEVICE inline void StorePack(const Pack<kWidth>& pack, float* to) {
  *reinterpret_cast<Pack<kWidth>*>(to) = pack;
}

template <int kWidth, typename Factors>
LOCKSTEP_HOST_DEVICE inline void UpdatePack(const Factors& factors,
                                            const UpdateBuffers& buffers,
                                            float clip_factor,
                                            int64_t begin) {
  const Pack<kWidth> gradients = LoadPack<kWidth>(buffers.gradients + begin);
  Pack<kWidth> parameters = LoadPack<kWidth>(buffers.parameters + begin);
  Pack<kWidth> first{};
  Pack<kWidth> second{};
  if constexpr (Factors::kSlotCount >= 1) {
    first = LoadPack<kWidth>(buffers.first_slot + begin);
  }
  if constexpr (Factors::kSlotCount >= 2) {
    second = LoadPack<kWidth>(buffers.second_slot + begin);
  }
  for (int i = 0; i < kWidth; ++i) {
    const UpdatedElement after =
        UpdateElement(factors,
                      gradients.values[i] * buffers.inverse_scale * clip_factor,
                      {parameters.values[i], first.values[i], second.values[i]});
    parameters.values[i] = after.parameter;
    first.values[i] = after.first_slot;
    second.values[i] = after.second_slot;
  }
  StorePack(parameters, buffers.parameters + begin);
  if constexpr (Factors::kSlotCount >= 1) {
    StorePack(first, buffers.first_slot + begin);
  }
  if constexpr (Factors::kSlotCount >= 2) {
    StorePack(second, buffers.second_slot + begin);
  }
}

// The part of thread `thread` of `thread_count`. kWidth is what PackWidthOf says, or 1.
template <int kWidth, typename Factors>
LOCKSTEP_HOST_DEVICE inline void UpdatePart(const Factors& factors,
                                            const UpdateBuffers& buffers,
                                            int64_t thread,
                                            int64_t thread_count) {
  if (buffers.found_non_finite != nullptr && *buffers.found_non_finite != 0) {
    return;
  }
  const float clip_factor = buffers.clip_factor != nullptr ? *buffers.clip_factor : 1;
  const int64_t pack_count = buffers.count / kWidth;
  for (int64_t pack = thread; pack < pack_count; pack += thread_count) {
    UpdatePack<kWidth>(factors, buffers, clip_factor, pack * kWidth);
  }
  for (int64_t i = pack_count * kWidth + thread; i < buffers.count; i += thread_count) {
    UpdatePack<1>(factors, buffers, clip_factor, i);
  }
}

// The same of a guarded update, whose factors and scale are in `step` and whose verdict has been
// given: both in the device's memory. Only the addresses in `buffers` count. `kind`: any value of
// the optimizer's factors.
template <int kWidth, typename Factors>
LOCKSTEP_HOST_DEVICE inline void UpdateGuardedPart(const Factors& kind,
                                                   const GuardedStep& step,
                                                   const UpdateVerdict& verdict,
                                                   UpdateBuffers buffers,
                                                   const UpdateThread& place) {
  buffers.inverse_scale = static_cast<float>(step.inverse_scale);
  buffers.found_non_finite = &verdict.is_refused;
  buffers.clip_factor = &verdict.clip_factor;
  UpdatePart<kWidth>(FactorsOf(step, kind), buffers, place.index, place.count);
}

// Whether one of the thread's gradients is infinite or not a number. kWidth: as for UpdatePart.
template <int kWidth>
LOCKSTEP_HOST_DEVICE inline bool PartHasNonFinite(const float* gradients,
                                                  int64_t count,
                                                  int64_t thread,
                                                  int64_t thread_count) {
  // x - x is 0 for every finite x and not a number for all others, which a sum keeps.
  float differences = 0;
  const int64_t pack_count = count / kWidth;
  for (int64_t pack = thread; pack < pack_count; pack += thread_count) {
    const Pack<kWidth> values = LoadPack<kWidth>(gradients + pack * kWidth);
    for (int i = 0; i < kWidth; ++i) {
      differences += values.values[i] - values.values[i];
    }
  }
  for (int64_t i = pack_count * kWidth + thread; i < count; i += thread_count) {
    differences += gradients[i] - gradients[i];
  }
  return differences != 0;
}

}  // namespace lockstep::runtime
