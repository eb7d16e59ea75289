#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "trainer-runtime/engine/backward_progress.h"

namespace lockstep::runtime {

// What backward makes of the gradients as they come, parameter by parameter in any order.
class GradientIntake {
 public:
  // `progress` hears of them. `slices` are where the gradients go, in the parameters' order;
  // `offsets` where each begins. `inverse_scale`, float64 [] on the device, is what they are
  // multiplied by; undefined: nothing, and nobody looks for overflows.
  GradientIntake(BackwardProgress progress,
                 at::Tensor inverse_scale,
                 std::span<const at::Tensor> slices,
                 std::span<const int64_t> offsets);

  void Take(std::size_t parameter, const at::Tensor& gradient);

  // bool []: some gradient was not a finite number. Undefined: none was looked at.
  const at::Tensor& overflow() const { return overflow_; }

  bool HasAll() const { return missing_count_ == 0; }

 private:
  at::Tensor inverse_scale_;
  std::span<const at::Tensor> slices_;
  std::span<const int64_t> offsets_;  // [parameters + 1]
  BackwardProgress progress_;
  std::vector<bool> has_come_;
  std::size_t missing_count_;  // of the first so many some has not come
  at::Tensor overflow_;
};

}  // namespace lockstep::runtime
