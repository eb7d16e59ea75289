#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/engine/host_floats.h"
#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {

// Of a tensor of that shape.
int64_t ElementCount(const std::vector<int64_t>& shape);

struct ParameterShape {
  std::string name;  // "layer0/kernel"
  std::vector<int64_t> shape;
};

// Owns a model's parameters, gradients and optimizer slots, each kind in one flat buffer:
//
//   parameters  | layer0/kernel | layer0/bias | layer3/kernel | ...
//   gradients   | layer0/kernel | layer0/bias | layer3/kernel | ...
//   slots       | adam_m of all parameters     | adam_v of all parameters |
//
// so that gradients travel and updates run without gathering. Everything starts at zero; addresses
// change only where memory is lent. Thread: one.
class ParameterStore {
 public:
  ParameterStore(std::vector<ParameterShape> shapes,
                 const std::vector<std::string_view>& slots,
                 const HostAllocator& allocate = OnHeap);

  // The numbers of the `index`-th parameter. Shapes: [product of its shape].
  std::span<float> Parameter(std::size_t index);
  std::span<float> Gradient(std::size_t index);

  // Where the `index`-th parameter begins in the flat buffers; the buffers' size for the first
  // index that there is not.
  int64_t Offset(std::size_t index) const { return static_cast<int64_t>(offsets_.at(index)); }

  // As Engine::Tensors() and Engine::Gradients() promise.
  std::vector<TensorView> Tensors();
  std::span<float> Gradients();

  // As Engine::LendGradients() promises.
  Status LendGradients(std::span<float> memory);

  // As Engine::LendState() promises.
  Status LendState(std::span<float> parameters, std::span<float> slots);

  // What ApplyOptimizer works on.
  FlatState Flat();

 private:
  std::span<float> AllParameters() { return parameters_; }

  std::span<float> AllSlots() { return slots_; }

  std::span<float> Cut(std::span<float> flat, std::size_t index, std::size_t slot = 0) const;

  std::vector<ParameterShape> shapes_;
  std::vector<std::string> slot_names_;
  std::vector<std::size_t> offsets_;  // [parameters + 1]; the last one is the total
  // The store's own memory; null where memory is lent.
  HostFloats own_parameters_;
  HostFloats own_gradients_;
  HostFloats own_slots_;
  std::span<float> parameters_;
  std::span<float> gradients_;
  std::span<float> slots_;
};

}  // namespace lockstep::runtime
