// Kernels for updates on a real GPU: bits against the CPU's loop, found-inf, and bandwidth beside
// that of a copy on the same card. Prints rows of tests/gpu/run.sh.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/base/prng.h"
#include "tests/gpu/device_model.h"
#include "tests/gpu/rows.h"

namespace lockstep::gpu {
namespace {

using runtime::UpdateBuffers;

struct Subject {
  std::string name;
  OptimizerSpec optimizer;
  int bytes_an_element;  // read and written by one update
};

const std::vector<Subject>& Subjects() {
  static const std::vector<Subject> subjects{
      {"SGD", SgdOptimizer{.learning_rate = 0.3}, 12},
      {"SGD, momentum", SgdOptimizer{.learning_rate = 0.3, .momentum = 0.9}, 20},
      {"SGD, Nesterov", SgdOptimizer{.learning_rate = 0.3, .momentum = 0.9, .nesterov = true}, 20},
      {"Adam", AdamOptimizer{}, 28}};
  return subjects;
}

std::vector<float> RandomValues(std::size_t count, double size, uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(count);
  std::generate(
      values.begin(), values.end(), [&] { return static_cast<float>((prng.Unit() - 0.5) * size); });
  return values;
}

// The buffers of one model on the device; the first `offset` elements of each are not part of it.
struct DeviceModel {
  DeviceModel(std::size_t count_of, std::size_t offset_of)
      : count(count_of),
        offset(offset_of),
        parameters(count + offset),
        gradients(count + offset),
        first(count + offset),
        second(count + offset) {
    first.Write(std::vector<float>(count + offset));
    second.Write(std::vector<float>(count + offset));
  }

  UpdateBuffers Buffers() const {
    return {.count = static_cast<int64_t>(count),
            .parameters = parameters.data() + offset,
            .gradients = gradients.data() + offset,
            .first_slot = first.data() + offset,
            .second_slot = second.data() + offset};
  }

  std::size_t count;
  std::size_t offset;
  DeviceBuffer<float> parameters;
  DeviceBuffer<float> gradients;
  DeviceBuffer<float> first;
  DeviceBuffer<float> second;
};

struct Difference {
  std::size_t bits = 0;  // elements whose bits differ
  double error_max = 0;

  void Add(const std::vector<float>& got, const std::vector<float>& wanted, std::size_t offset) {
    for (std::size_t i = offset; i < got.size(); ++i) {
      if (std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(wanted[i - offset])) {
        ++bits;
        error_max = std::max(error_max, std::abs(double{got[i]} - double{wanted[i - offset]}));
      }
    }
  }
};

constexpr float kScale = 65536;

// Three updates with scaled gradients, beside three of the CPU's loop with unscaled ones.
void Compare(const Subject& subject,
             std::size_t count,
             std::size_t offset,
             Difference& difference) {
  std::vector<float> parameters = RandomValues(count + offset, 1, 11);
  std::vector<float> gradients = RandomValues(count + offset, 1.0 / 128, 12);
  std::vector<float> scaled = gradients;
  std::transform(scaled.begin(), scaled.end(), scaled.begin(), [](float x) { return x * kScale; });
  DeviceModel device(count, offset);
  device.parameters.Write(parameters);
  device.gradients.Write(scaled);
  UpdateBuffers buffers = device.Buffers();
  buffers.inverse_scale = 1 / kScale;

  std::vector<float> wanted(parameters.begin() + static_cast<std::ptrdiff_t>(offset),
                            parameters.end());
  const std::size_t slot_count = runtime::OptimizerSlotNames(subject.optimizer).size();
  std::vector<float> slots(slot_count * count);
  for (int64_t update = 1; update <= 3; ++update) {
    LaunchUpdate(runtime::MakeUpdateFactors(subject.optimizer, update), buffers);
    runtime::ApplyOptimizer(
        subject.optimizer,
        update,
        {.parameters = wanted, .gradients = std::span(gradients).subspan(offset), .slots = slots});
  }
  difference.Add(device.parameters.Read(), wanted, offset);
  const DeviceBuffer<float>* homes[] = {&device.first, &device.second};
  for (std::size_t slot = 0; slot < slot_count; ++slot) {
    const auto begin = slots.begin() + static_cast<std::ptrdiff_t>(slot * count);
    difference.Add(
        homes[slot]->Read(), {begin, begin + static_cast<std::ptrdiff_t>(count)}, offset);
  }
}

bool CheckBits() {
  bool is_held = true;
  for (const Subject& subject : Subjects()) {
    Difference difference;
    for (const std::size_t count : {std::size_t{1}, std::size_t{67}, (std::size_t{1} << 20U) + 3}) {
      for (const std::size_t offset : {std::size_t{0}, std::size_t{1}}) {
        Compare(subject, count, offset, difference);
      }
    }
    char figure[100];
    std::snprintf(figure,
                  sizeof(figure),
                  "%zu elements differ, max error %.3g",
                  difference.bits,
                  difference.error_max);
    is_held &= PrintBar(
        subject.name + " against the CPU's loop", figure, "0 differ", difference.bits == 0);
  }
  return is_held;
}

bool CheckFoundInf() {
  const std::size_t count = (std::size_t{1} << 20U) + 3;
  DeviceModel device(count, 0);
  DeviceBuffer<int> found(1);
  const std::vector<float> before = RandomValues(count, 1, 13);
  const std::vector<float> finite = RandomValues(count, 1, 14);
  const auto found_in = [&](const std::vector<float>& gradients) {
    device.gradients.Write(gradients);
    found.Write({0});
    Require(runtime::FindNonFinite(
                device.gradients.data(), static_cast<int64_t>(count), found.data(), nullptr),
            "launch");
    return found.Read()[0] != 0;
  };
  int wrong = found_in(finite) ? 1 : 0;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::size_t at : {std::size_t{0}, count / 2, count - 4, count - 1}) {
    for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> gradients = finite;
      gradients[at] = bad;
      wrong += found_in(gradients) ? 0 : 1;
    }
  }
  const bool is_found =
      PrintBar("found-inf", std::to_string(wrong) + " of 13 wrong", "0 wrong", wrong == 0);

  device.parameters.Write(before);
  UpdateBuffers buffers = device.Buffers();
  buffers.found_non_finite = found.data();  // set: the last gradients were not finite
  for (const Subject& subject : Subjects()) {
    LaunchUpdate(runtime::MakeUpdateFactors(subject.optimizer, 1), buffers);
  }
  Difference difference;
  difference.Add(device.parameters.Read(), before, 0);
  difference.Add(device.first.Read(), std::vector<float>(count), 0);
  difference.Add(device.second.Read(), std::vector<float>(count), 0);
  return PrintBar("a step that is skipped",
                  std::to_string(difference.bits) + " elements changed",
                  "0 changed",
                  difference.bits == 0) &&
         is_found;
}

// Median time of one of `work`, in seconds, of 15 after 3 that do not count.
double SecondsOf(const std::function<void()>& work) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  Require(cudaEventCreate(&begin), "event");
  Require(cudaEventCreate(&end), "event");
  std::vector<float> milliseconds;
  for (int round = 0; round < 18; ++round) {
    Require(cudaEventRecord(begin, nullptr), "event");
    work();
    Require(cudaEventRecord(end, nullptr), "event");
    Require(cudaEventSynchronize(end), "the device's work");
    float took = 0;
    Require(cudaEventElapsedTime(&took, begin, end), "event");
    if (round >= 3) {
      milliseconds.push_back(took);
    }
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(milliseconds.begin(), milliseconds.end());
  return double{milliseconds[milliseconds.size() / 2]} / 1000;
}

// Far above any cache: 256 MiB a buffer.
constexpr std::size_t kBandwidthCount = std::size_t{1} << 26U;
constexpr double kBar = 0.85;

bool CheckBandwidth() {
  const DeviceModel device(kBandwidthCount, 0);
  const std::size_t bytes = kBandwidthCount * sizeof(float);
  Require(cudaMemset(device.parameters.data(), 0, bytes), "memset");
  Require(cudaMemset(device.gradients.data(), 0, bytes), "memset");
  const double copy = 2.0 * static_cast<double>(bytes) / SecondsOf([&] {
                        Require(cudaMemcpyAsync(device.parameters.data(),
                                                device.gradients.data(),
                                                bytes,
                                                cudaMemcpyDeviceToDevice,
                                                nullptr),
                                "copy");
                      });
  PrintRow("copy on the card", OneDecimal(copy / 1e9) + " GB/s", "", "seen");
  bool is_held = true;
  for (const Subject& subject : Subjects()) {
    const runtime::UpdateFactors factors = runtime::MakeUpdateFactors(subject.optimizer, 1);
    const double seconds = SecondsOf([&] { LaunchUpdate(factors, device.Buffers()); });
    const double rate = static_cast<double>(kBandwidthCount) * subject.bytes_an_element / seconds;
    is_held &=
        PrintBar(subject.name + ", bandwidth",
                 OneDecimal(rate / 1e9) + " GB/s, " + OneDecimal(100 * rate / copy) + " % of copy",
                 ">= 85 % of copy",
                 rate >= kBar * copy);
  }
  DeviceBuffer<int> found(1);
  found.Write({0});
  const double seconds = SecondsOf([&] {
    Require(runtime::FindNonFinite(
                device.gradients.data(), int64_t{kBandwidthCount}, found.data(), nullptr),
            "launch");
  });
  PrintRow("found-inf, bandwidth",
           OneDecimal(static_cast<double>(bytes) / seconds / 1e9) + " GB/s",
           "",
           "seen");
  return is_held;
}

int Main() {
  int device_count = 0;
  const cudaError_t code = cudaGetDeviceCount(&device_count);
  if (code != cudaSuccess || device_count == 0) {
    std::fprintf(stderr,
                 "no GPU that CUDA 13 can use is visible here: %s\n",
                 code == cudaSuccess ? "the driver sees none" : cudaGetErrorString(code));
    return kExitNoGpu;
  }
  cudaDeviceProp properties{};
  Require(cudaGetDeviceProperties(&properties, 0), "the card's name");
  PrintRow("card", properties.name, "", "seen");
  const bool are_bits_equal = CheckBits();
  const bool is_skipped = CheckFoundInf();
  const bool is_fast = CheckBandwidth();
  return are_bits_equal && is_skipped && is_fast ? kExitHeld : kExitMissed;
}

}  // namespace
}  // namespace lockstep::gpu

int main() {
  return lockstep::gpu::Main();
}
