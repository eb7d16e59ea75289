#include "trainer-runtime/engine/window.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

// All padding of one axis: what the windows reach beyond the input. "Valid" windows reach nowhere.
int64_t Padded(int64_t in, int64_t out, int64_t size, int64_t stride) {
  return std::max<int64_t>(0, (out - 1) * stride + size - in);
}

}  // namespace

Window MakeWindow(const std::vector<int64_t>& input,
                  const std::vector<int64_t>& output,
                  Extent size,
                  Extent strides) {
  Window window{.in_height = input[0],
                .in_width = input[1],
                .channels = input[2],
                .out_height = output[0],
                .out_width = output[1],
                .size = size,
                .strides = strides};
  const int64_t rows = Padded(input[0], output[0], size.height, strides.height);
  const int64_t columns = Padded(input[1], output[1], size.width, strides.width);
  window.pad_before = {rows / 2, columns / 2};
  window.pad_after = {rows - rows / 2, columns - columns / 2};
  return window;
}

}  // namespace lockstep::runtime
