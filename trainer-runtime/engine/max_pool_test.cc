#include "trainer-runtime/engine/max_pool.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

struct PoolCase {
  const char* name;
  std::vector<int64_t> input;  // [height, width, channels]
  Extent size;
  Extent strides;
  bool is_same;
};

const PoolCase kCases[] = {
    {"tutorial", {26, 26, 32}, {2, 2}, {2, 2}, false},
    {"one channel", {6, 6, 1}, {2, 2}, {2, 2}, false},
    {"a rest on both sides", {7, 5, 3}, {2, 2}, {2, 2}, false},
    {"overlapping", {7, 7, 5}, {3, 3}, {2, 2}, false},
    {"overlapping in one direction", {8, 6, 17}, {3, 2}, {1, 2}, false},
    {"gaps between windows", {9, 9, 4}, {2, 2}, {3, 4}, false},
    {"same, odd padding", {5, 8, 3}, {2, 3}, {2, 2}, true},
    {"same, overlapping", {6, 6, 20}, {3, 3}, {1, 1}, true},
};

Window WindowOf(const PoolCase& c) {
  const auto slide = [&](int64_t in, int64_t size, int64_t stride) {
    return c.is_same ? (in + stride - 1) / stride : (in - size) / stride + 1;
  };
  return MakeWindow(c.input,
                    {slide(c.input[0], c.size.height, c.strides.height),
                     slide(c.input[1], c.size.width, c.strides.width),
                     c.input[2]},
                    c.size,
                    c.strides);
}

std::size_t Size(int64_t height, int64_t width, int64_t channels, int64_t samples) {
  return static_cast<std::size_t>(height * width * channels * samples);
}

std::vector<float> Random(std::size_t count) {
  Prng prng(11);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(2 * prng.Unit() - 1);
  }
  return values;
}

constexpr int64_t kSamples = 3;

struct Pooled {
  std::vector<float> output;
  std::vector<float> input_gradient;
};

// Values and gradients straight from the definition, one output at a time.
Pooled Definition(const MaxPool& pool, std::span<const float> in, std::span<const float> slopes) {
  const Window& w = pool.window;
  Pooled result;
  result.input_gradient.resize(in.size());
  for (int64_t i = 0; i < kSamples * w.out_height * w.out_width * w.channels; ++i) {
    const int64_t channel = i % w.channels;
    const int64_t column = i / w.channels % w.out_width;
    const int64_t row = i / w.channels / w.out_width % w.out_height;
    const int64_t sample = i / w.channels / w.out_width / w.out_height;
    float best = -std::numeric_limits<float>::infinity();
    std::size_t from = 0;
    for (int64_t tap = 0; tap < w.size.height * w.size.width; ++tap) {
      const int64_t y = row * w.strides.height - w.pad_before.height + tap / w.size.width;
      const int64_t x = column * w.strides.width - w.pad_before.width + tap % w.size.width;
      if (y < 0 || y >= w.in_height || x < 0 || x >= w.in_width) {
        continue;
      }
      const auto at = static_cast<std::size_t>(
          ((sample * w.in_height + y) * w.in_width + x) * w.channels + channel);
      if (in[at] > best) {
        best = in[at];
        from = at;
      }
    }
    const bool is_cut = pool.has_relu && best <= 0;
    result.output.push_back(is_cut ? 0 : best);
    result.input_gradient[from] += is_cut ? 0 : slopes[static_cast<std::size_t>(i)];
  }
  return result;
}

TEST(MaxPool, AgreesWithItsDefinition) {
  for (const PoolCase& c : kCases) {
    for (const bool has_relu : {false, true}) {
      const MaxPool pool{.window = WindowOf(c), .has_relu = has_relu};
      const Window& w = pool.window;
      const auto input = Random(Size(w.in_height, w.in_width, w.channels, kSamples));
      const auto slopes = Random(Size(w.out_height, w.out_width, w.channels, kSamples));
      const Pooled expected = Definition(pool, input, slopes);
      std::vector<float> output(slopes.size());
      std::vector<int32_t> taps(slopes.size());
      std::vector<float> input_gradient(input.size(), 77);  // must be overwritten
      MaxPoolForward(pool, input, output, taps);
      MaxPoolBackward(pool, slopes, taps, input_gradient);
      EXPECT_EQ(output, expected.output) << c.name << " relu " << has_relu;
      for (std::size_t i = 0; i < input.size(); ++i) {
        ASSERT_NEAR(input_gradient[i], expected.input_gradient[i], 1e-6)
            << c.name << " relu " << has_relu << " at " << i;
      }
    }
  }
}

TEST(MaxPool, ChannelSumsAreThoseOfTheInputGradient) {
  for (const PoolCase& c : kCases) {
    for (const bool has_relu : {false, true}) {
      const MaxPool pool{.window = WindowOf(c), .has_relu = has_relu};
      const Window& w = pool.window;
      const auto input = Random(Size(w.in_height, w.in_width, w.channels, kSamples));
      const auto slopes = Random(Size(w.out_height, w.out_width, w.channels, kSamples));
      std::vector<float> output(slopes.size());
      std::vector<int32_t> taps(slopes.size());
      std::vector<float> input_gradient(input.size());
      MaxPoolForward(pool, input, output, taps);
      MaxPoolBackward(pool, slopes, taps, input_gradient);
      std::vector<double> expected(static_cast<std::size_t>(w.channels), 1);
      for (std::size_t i = 0; i < input.size(); ++i) {
        expected[i % expected.size()] += input_gradient[i];
      }
      std::vector<float> sums(expected.size(), 1);  // must be added to
      AddMaxPoolChannelSums(pool, slopes, taps, sums);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        EXPECT_NEAR(sums[i], expected[i], 1e-4) << c.name << " relu " << has_relu;
      }
    }
  }
}

TEST(MaxPool, FirstOfEqualValuesTakesTheGradient) {
  const MaxPool pool{.window = MakeWindow({2, 2, 1}, {1, 1, 1}, {2, 2}, {2, 2})};
  const std::vector<float> input{3, 3, 3, 3};
  std::vector<float> output(1);
  std::vector<int32_t> taps(1);
  MaxPoolForward(pool, input, output, taps);
  EXPECT_EQ(taps[0], 0);
}

// A diverged network must be seen to have diverged.
TEST(MaxPool, NotANumberGoesThroughWithAndWithoutRelu) {
  for (const bool has_relu : {false, true}) {
    const MaxPool pool{.window = MakeWindow({2, 2, 1}, {1, 1, 1}, {2, 2}, {2, 2}),
                       .has_relu = has_relu};
    for (std::size_t where = 0; where < 4; ++where) {
      std::vector<float> input{1, 2, 3, 4};
      input[where] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> output(1);
      std::vector<int32_t> taps(1);
      MaxPoolForward(pool, input, output, taps);
      EXPECT_TRUE(std::isnan(output[0])) << where;
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
