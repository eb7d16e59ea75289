#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/host_floats.h"
#include "trainer-runtime/engine/initializer.h"
#include "trainer-runtime/engine/parameter_store.h"

namespace lockstep::runtime {

// One parameter of a network, and how it begins.
struct PlannedParameter {
  ParameterShape shape;
  std::size_t layer_index = 0;
  std::optional<Fan> fan;  // of a kernel; a bias has none and begins at zero
};

// The shapes between the layers. Errors: kInvalidArgument with the field at fault, also for a model
// without layers.
Result<std::vector<LayerShape>> ShapesOf(const ModelSpec& model);

// The parameters in layer order: kernel, then bias. `shapes` are ShapesOf(model).
std::vector<PlannedParameter> PlanParameters(const ModelSpec& model,
                                             const std::vector<LayerShape>& shapes);

// Memory for them and the optimizer's slots, made by `allocate`, with fresh parameters: Glorot
// uniform kernels from the spec's seed, zero biases.
std::unique_ptr<ParameterStore> MakeParameters(const TrainingSpec& spec,
                                               const std::vector<PlannedParameter>& plan,
                                               const HostAllocator& allocate = OnHeap);

}  // namespace lockstep::runtime
