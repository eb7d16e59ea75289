#include "trainer-runtime/engine/parameter_store.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace lockstep::runtime {

int64_t ElementCount(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

ParameterStore::ParameterStore(std::vector<ParameterShape> shapes,
                               const std::vector<std::string_view>& slots,
                               const HostAllocator& allocate)
    : shapes_(std::move(shapes)), slot_names_(slots.begin(), slots.end()), offsets_{0} {
  for (const ParameterShape& parameter : shapes_) {
    offsets_.push_back(offsets_.back() + static_cast<std::size_t>(ElementCount(parameter.shape)));
  }
  const std::size_t count = offsets_.back();
  own_parameters_ = allocate(count);
  own_gradients_ = allocate(count);
  own_slots_ = allocate(count * slot_names_.size());
  parameters_ = {own_parameters_.get(), count};
  gradients_ = {own_gradients_.get(), count};
  slots_ = {own_slots_.get(), count * slot_names_.size()};
}

std::span<float> ParameterStore::Parameter(std::size_t index) {
  return Cut(AllParameters(), index);
}

std::span<float> ParameterStore::Gradient(std::size_t index) {
  return Cut(gradients_, index);
}

std::vector<TensorView> ParameterStore::Tensors() {
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    views.push_back({shapes_[i].name, TensorKind::kParameter, shapes_[i].shape, Parameter(i)});
  }
  for (std::size_t slot = 0; slot < slot_names_.size(); ++slot) {
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      views.push_back({shapes_[i].name + "/" + slot_names_[slot],
                       TensorKind::kOptimizerSlot,
                       shapes_[i].shape,
                       Cut(AllSlots(), i, slot)});
    }
  }
  return views;
}

std::span<float> ParameterStore::Gradients() {
  return gradients_;
}

Status ParameterStore::LendGradients(std::span<float> memory) {
  if (memory.size() != gradients_.size()) {
    return Error(ErrorCode::kInvalidArgument,
                 "shared memory for " + std::to_string(memory.size()) +
                     " gradients found, expected " + std::to_string(gradients_.size()));
  }
  gradients_ = memory;
  own_gradients_.reset();
  return OkStatus();
}

Status ParameterStore::LendState(std::span<float> parameters, std::span<float> slots) {
  if (parameters.size() != parameters_.size() || slots.size() != slots_.size()) {
    return Error(ErrorCode::kInvalidArgument,
                 "shared memory for " + std::to_string(parameters.size()) + " parameters and " +
                     std::to_string(slots.size()) + " optimizer values found, expected " +
                     std::to_string(parameters_.size()) + " and " + std::to_string(slots_.size()));
  }
  std::ranges::copy(parameters_, parameters.begin());
  std::ranges::copy(slots_, slots.begin());
  parameters_ = parameters;
  slots_ = slots;
  own_parameters_.reset();
  own_slots_.reset();
  return OkStatus();
}

FlatState ParameterStore::Flat() {
  return {.parameters = AllParameters(), .gradients = gradients_, .slots = AllSlots()};
}

std::span<float> ParameterStore::Cut(std::span<float> flat,
                                     std::size_t index,
                                     std::size_t slot) const {
  const std::size_t begin = slot * offsets_.back() + offsets_[index];
  return flat.subspan(begin, offsets_[index + 1] - offsets_[index]);
}

}  // namespace lockstep::runtime
