#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

// Shared by the programs that run.py compares: what to measure comes as arguments BYTES:ITERATIONS,
// and one line "BYTES P50_US MIN_US MEAN_US" per size goes to standard output.

namespace lockstep::bench {

struct Size {
  std::size_t byte_count;
  int iterations;
};

inline std::vector<Size> ParseSizes(int argc, char** argv, int first) {
  std::vector<Size> sizes;
  for (int i = first; i < argc; ++i) {
    char* end = nullptr;
    const std::size_t byte_count = std::strtoull(argv[i], &end, 10);
    sizes.push_back({byte_count, *end == ':' ? std::atoi(end + 1) : 1});
  }
  return sizes;
}

// Sums floats in place over all ranks, once. Returns false on an error, which it has reported.
using AllReduceFunction = std::function<bool(float* data, std::size_t count)>;

// One size: a sum that is checked, a tenth of the iterations unmeasured, then the measured ones.
// `data` is what is summed, [size.byte_count / 4].
inline bool MeasureSize(
    const Size& size, int world_size, bool prints, const AllReduceFunction& sum, float* data) {
  const std::size_t count = size.byte_count / sizeof(float);
  std::fill(data, data + count, 1.0F);
  if (!sum(data, count) || std::count(data, data + count, static_cast<float>(world_size)) !=
                               static_cast<std::ptrdiff_t>(count)) {
    std::fprintf(stderr, "wrong sum of %zu bytes\n", size.byte_count);
    return false;
  }
  std::fill(data, data + count, 0.0F);
  std::vector<double> times_us;
  for (int i = -size.iterations / 10; i < size.iterations; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (!sum(data, count)) {
      return false;
    }
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    if (i >= 0) {
      times_us.push_back(time.count());
    }
  }
  std::sort(times_us.begin(), times_us.end());
  double total = 0;
  for (const double time : times_us) {
    total += time;
  }
  if (prints) {
    std::printf("%zu %.3f %.3f %.3f\n",
                size.byte_count,
                times_us[times_us.size() / 2],
                times_us[0],
                total / static_cast<double>(times_us.size()));
    std::fflush(stdout);
  }
  return true;
}

// Of the largest size, in bytes.
inline std::size_t LargestOf(const std::vector<Size>& sizes) {
  std::size_t largest = 0;
  for (const Size& size : sizes) {
    largest = std::max(largest, size.byte_count);
  }
  return largest;
}

// `memory`: where the numbers are, [LargestOf(sizes) / 4]; null: in memory of the measurement's
// own.
inline int MeasureAll(const std::vector<Size>& sizes,
                      int world_size,
                      bool prints,
                      const AllReduceFunction& sum,
                      float* memory = nullptr) {
  for (const Size& size : sizes) {
    std::vector<float> own(memory == nullptr ? size.byte_count / sizeof(float) : 0);
    if (!MeasureSize(size, world_size, prints, sum, memory == nullptr ? own.data() : memory)) {
      return 1;
    }
  }
  return 0;
}

}  // namespace lockstep::bench
