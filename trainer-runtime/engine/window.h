#pragma once

#include <cstdint>
#include <vector>

#include "common/contract/training/training_spec.h"

namespace lockstep::runtime {

// A window that slides over images, channels last.
struct Window {
  int64_t in_height = 1;
  int64_t in_width = 1;
  int64_t channels = 1;
  int64_t out_height = 1;
  int64_t out_width = 1;
  Extent size;
  Extent strides;
  // Rows and columns added around the input. With "same" padding the odd one goes below and to the
  // right, as in TensorFlow.
  Extent pad_before{0, 0};
  Extent pad_after{0, 0};
};

// Shapes: input and output [height, width, channels] of one sample, as InferShapes gives them;
// `channels` of the window are the input's.
Window MakeWindow(const std::vector<int64_t>& input,
                  const std::vector<int64_t>& output,
                  Extent size,
                  Extent strides);

}  // namespace lockstep::runtime
