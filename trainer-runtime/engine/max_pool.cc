#include "trainer-runtime/engine/max_pool.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "trainer-runtime/engine/vector_clones.h"

// Into each clone, compiled for its instruction set.
#define LOCKSTEP_INLINE inline __attribute__((always_inline))

namespace lockstep::runtime {
namespace {

// The part of a window that lies on the input, for one output position. A tap is the number of an
// element of the window, counted row by row: the same for every position.
struct Reach {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t column_begin = 0;
  int64_t column_end = 0;
};

struct Position {
  int64_t row = 0;
  int64_t column = 0;
};

// Input row and column of the window's first tap; negative where it lies on padding.
Position Origin(const Window& window, Position out) {
  return {out.row * window.strides.height - window.pad_before.height,
          out.column * window.strides.width - window.pad_before.width};
}

Reach Clip(const Window& window, Position origin) {
  return {std::max<int64_t>(0, -origin.row),
          std::min(window.size.height, window.in_height - origin.row),
          std::max<int64_t>(0, -origin.column),
          std::min(window.size.width, window.in_width - origin.column)};
}

// Calls visit(tap, offset of the tap's channels in the sample) for each tap on the input.
template <typename Visit>
LOCKSTEP_INLINE void ForEachTap(const Window& window, Position out, const Visit& visit) {
  const Position origin = Origin(window, out);
  const Reach reach = Clip(window, origin);
  for (int64_t row = reach.row_begin; row < reach.row_end; ++row) {
    for (int64_t column = reach.column_begin; column < reach.column_end; ++column) {
      const int64_t pixel = (origin.row + row) * window.in_width + origin.column + column;
      visit(static_cast<int32_t>(row * window.size.width + column), pixel * window.channels);
    }
  }
}

// The loops below run over channels: neighbours in memory, so that they become vector code whatever
// the window's shape. Pointers come as arguments, because GCC drops __restrict on captured ones.
LOCKSTEP_INLINE void TakeFirst(int64_t channels,
                               int32_t tap,
                               const float* __restrict values,
                               float* __restrict best,
                               int32_t* __restrict taps) {
  for (int64_t c = 0; c < channels; ++c) {
    best[c] = values[c];
    taps[c] = tap;
  }
}

LOCKSTEP_INLINE void TakeLarger(int64_t channels,
                                int32_t tap,
                                const float* __restrict values,
                                float* __restrict best,
                                int32_t* __restrict taps) {
  for (int64_t c = 0; c < channels; ++c) {
    const float value = values[c];
    const float before = best[c];
    const int32_t tap_before = taps[c];
    const bool is_kept = value <= before || before != before;  // false for a value that is NaN
    best[c] = is_kept ? before : value;
    taps[c] = is_kept ? tap_before : tap;
  }
}

LOCKSTEP_INLINE void ApplyRelu(int64_t channels, float* __restrict best, int32_t* __restrict taps) {
  for (int64_t c = 0; c < channels; ++c) {
    const float value = best[c];
    const int32_t tap = taps[c];
    taps[c] = value <= 0 ? kNoTap : tap;
    best[c] = value < 0 ? 0 : value;
  }
}

LOCKSTEP_INLINE void AddWhereTaken(int64_t channels,
                                   int32_t tap,
                                   const float* __restrict gradient,
                                   const int32_t* __restrict taps,
                                   float* __restrict target) {
  for (int64_t c = 0; c < channels; ++c) {
    const float value = gradient[c];
    target[c] += taps[c] == tap ? value : 0;
  }
}

LOCKSTEP_INLINE void SetWhereTaken(int64_t channels,
                                   int32_t tap,
                                   const float* __restrict gradient,
                                   const int32_t* __restrict taps,
                                   float* __restrict target) {
  for (int64_t c = 0; c < channels; ++c) {
    const float value = gradient[c];
    target[c] = taps[c] == tap ? value : 0;
  }
}

// Whether the windows cover every input once. Then each input is written once and none is cleared.
bool IsTiling(const Window& window) {
  return window.size == window.strides &&
         window.out_height * window.size.height == window.in_height &&
         window.out_width * window.size.width == window.in_width;
}

LOCKSTEP_VECTOR_CLONES
void ForwardSample(const MaxPool& pool,
                   const float* __restrict input,
                   float* __restrict output,
                   int32_t* __restrict taps) {
  const Window& window = pool.window;
  const int64_t channels = window.channels;
  for (int64_t row = 0; row < window.out_height; ++row) {
    for (int64_t column = 0; column < window.out_width; ++column) {
      bool is_first = true;
      ForEachTap(window, {row, column}, [&](int32_t tap, int64_t offset) {
        if (is_first) {
          TakeFirst(channels, tap, input + offset, output, taps);
          is_first = false;
        } else {
          TakeLarger(channels, tap, input + offset, output, taps);
        }
      });
      if (pool.has_relu) {
        ApplyRelu(channels, output, taps);
      }
      output += channels;
      taps += channels;
    }
  }
}

LOCKSTEP_VECTOR_CLONES
void BackwardSample(const MaxPool& pool,
                    const float* __restrict output_gradient,
                    const int32_t* __restrict taps,
                    float* __restrict input_gradient) {
  const Window& window = pool.window;
  const int64_t channels = window.channels;
  const bool is_tiling = IsTiling(window);
  for (int64_t row = 0; row < window.out_height; ++row) {
    for (int64_t column = 0; column < window.out_width; ++column) {
      ForEachTap(window, {row, column}, [&](int32_t tap, int64_t offset) {
        if (is_tiling) {
          SetWhereTaken(channels, tap, output_gradient, taps, input_gradient + offset);
        } else {
          AddWhereTaken(channels, tap, output_gradient, taps, input_gradient + offset);
        }
      });
      output_gradient += channels;
      taps += channels;
    }
  }
}

LOCKSTEP_VECTOR_CLONES
void AddSampleSums(int64_t pixel_count,
                   int64_t channels,
                   const float* __restrict gradient,
                   const int32_t* __restrict taps,
                   float* __restrict sums) {
  for (int64_t pixel = 0; pixel < pixel_count; ++pixel) {
    for (int64_t c = 0; c < channels; ++c) {
      const float value = gradient[c];
      sums[c] += taps[c] == kNoTap ? 0 : value;
    }
    gradient += channels;
    taps += channels;
  }
}

int64_t InputSize(const Window& window) {
  return window.in_height * window.in_width * window.channels;
}

int64_t OutputSize(const Window& window) {
  return window.out_height * window.out_width * window.channels;
}

}  // namespace

void MaxPoolForward(const MaxPool& pool,
                    std::span<const float> input,
                    std::span<float> output,
                    std::span<int32_t> taps) {
  const int64_t in_size = InputSize(pool.window);
  const int64_t out_size = OutputSize(pool.window);
  const int64_t sample_count = static_cast<int64_t>(input.size()) / in_size;
  for (int64_t n = 0; n < sample_count; ++n) {
    ForwardSample(
        pool, input.data() + n * in_size, output.data() + n * out_size, taps.data() + n * out_size);
  }
}

void MaxPoolBackward(const MaxPool& pool,
                     std::span<const float> output_gradient,
                     std::span<const int32_t> taps,
                     std::span<float> input_gradient) {
  const int64_t in_size = InputSize(pool.window);
  const int64_t out_size = OutputSize(pool.window);
  const int64_t sample_count = static_cast<int64_t>(input_gradient.size()) / in_size;
  for (int64_t n = 0; n < sample_count; ++n) {
    // Cleared sample by sample: what is then added to is still in the cache.
    float* const sample = input_gradient.data() + n * in_size;
    if (!IsTiling(pool.window)) {
      std::fill_n(sample, in_size, 0.0f);
    }
    BackwardSample(pool, output_gradient.data() + n * out_size, taps.data() + n * out_size, sample);
  }
}

void AddMaxPoolChannelSums(const MaxPool& pool,
                           std::span<const float> output_gradient,
                           std::span<const int32_t> taps,
                           std::span<float> sums) {
  const int64_t pixel_count = pool.window.out_height * pool.window.out_width;
  const int64_t out_size = OutputSize(pool.window);
  const int64_t sample_count = static_cast<int64_t>(output_gradient.size()) / out_size;
  std::vector<float> sample_sums(sums.size());
  for (int64_t n = 0; n < sample_count; ++n) {
    // Sample by sample: one running sum over a whole batch would lose digits.
    std::ranges::fill(sample_sums, 0.0f);
    AddSampleSums(pixel_count,
                  pool.window.channels,
                  output_gradient.data() + n * out_size,
                  taps.data() + n * out_size,
                  sample_sums.data());
    std::ranges::transform(sums, sample_sums, sums.begin(), std::plus<>());
  }
}

}  // namespace lockstep::runtime
