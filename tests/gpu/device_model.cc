#include "tests/gpu/device_model.h"

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <variant>

#include "tests/gpu/rows.h"

namespace lockstep::gpu {

void Require(int code, const std::string& what) {
  if (code != cudaSuccess) {
    PrintRow(what, cudaGetErrorString(static_cast<cudaError_t>(code)), "no error", "MISSED");
    std::exit(kExitMissed);
  }
}

template <typename Element>
DeviceBuffer<Element>::DeviceBuffer(std::size_t count) : count_(count) {
  void* data = nullptr;
  Require(cudaMalloc(&data, count * sizeof(Element)), "memory on the device");
  data_ = static_cast<Element*>(data);
}

template <typename Element>
DeviceBuffer<Element>::~DeviceBuffer() {
  cudaFree(data_);
}

template <typename Element>
void DeviceBuffer<Element>::Write(const std::vector<Element>& values) {
  Require(cudaMemcpy(data_, values.data(), count_ * sizeof(Element), cudaMemcpyHostToDevice),
          "copy to the device");
}

template <typename Element>
std::vector<Element> DeviceBuffer<Element>::Read() const {
  std::vector<Element> values(count_);
  Require(cudaMemcpy(values.data(), data_, count_ * sizeof(Element), cudaMemcpyDeviceToHost),
          "copy from the device");
  return values;
}

template class DeviceBuffer<float>;
template class DeviceBuffer<int>;

void LaunchUpdate(const runtime::UpdateFactors& factors, const runtime::UpdateBuffers& buffers) {
  std::visit([&](const auto& kind) { Require(runtime::Update(kind, buffers, nullptr), "launch"); },
             factors);
}

}  // namespace lockstep::gpu
