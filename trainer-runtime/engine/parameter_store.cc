#include "trainer-runtime/engine/parameter_store.h"

#include <algorithm>
#include <utility>

namespace lockstep::runtime {
namespace {

std::size_t ElementCount(const std::vector<int64_t>& shape) {
  std::size_t count = 1;
  for (const int64_t extent : shape) {
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

}  // namespace

ParameterStore::ParameterStore(std::vector<ParameterShape> shapes,
                               const std::vector<std::string_view>& slots,
                               const HostAllocator& allocate)
    : shapes_(std::move(shapes)), slot_names_(slots.begin(), slots.end()), offsets_{0} {
  for (const ParameterShape& parameter : shapes_) {
    offsets_.push_back(offsets_.back() + ElementCount(parameter.shape));
  }
  parameters_ = allocate(offsets_.back());
  own_gradients_ = allocate(offsets_.back());
  gradients_ = {own_gradients_.get(), offsets_.back()};
  slots_ = allocate(AllSlots().size());
  for (const std::span<float> part : {AllParameters(), gradients_, AllSlots()}) {
    std::ranges::fill(part, 0.0F);
  }
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
                 "memory for " + std::to_string(memory.size()) + " gradients lent, expected " +
                     std::to_string(gradients_.size()));
  }
  gradients_ = memory;
  own_gradients_.reset();
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
