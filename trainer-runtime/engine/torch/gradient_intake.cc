#include "trainer-runtime/engine/torch/gradient_intake.h"

#include <utility>

namespace lockstep::runtime {

GradientIntake::GradientIntake(BackwardProgress progress,
                               at::Tensor inverse_scale,
                               std::span<const at::Tensor> slices,
                               std::span<const int64_t> offsets)
    : inverse_scale_(std::move(inverse_scale)),
      slices_(slices),
      offsets_(offsets),
      progress_(std::move(progress)),
      has_come_(slices.size()),
      missing_count_(slices.size()) {}

void GradientIntake::Take(std::size_t parameter, const at::Tensor& gradient) {
  at::Tensor slice = slices_[parameter];
  slice.copy_(gradient);
  if (inverse_scale_.defined()) {
    const at::Tensor has_overflown = slice.isfinite().all().logical_not();
    overflow_ = overflow_.defined() ? overflow_.logical_or(has_overflown) : has_overflown;
    slice.mul_(inverse_scale_);
  }
  has_come_[parameter] = true;
  // The listener hears of them from the last to the first, and a layer at a time.
  std::size_t first = missing_count_;
  while (first > 0 && has_come_[first - 1]) {
    --first;
  }
  if (first < missing_count_) {
    missing_count_ = first;
    progress_.ReadyFrom(offsets_[first]);
  }
}

}  // namespace lockstep::runtime
