#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer-runtime/engine/cuda/update_kernels.h"
#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::gpu {

// Ends the program with CUDA's words if `code` is not 0: a table beside an error says nothing.
void Require(int code, const std::string& what);

// Memory of the device for `count` elements, freed with the object.
template <typename Element>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t count);
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  Element* data() const { return data_; }

  // Wait until the copy is done.
  void Write(const std::vector<Element>& values);
  std::vector<Element> Read() const;

 private:
  std::size_t count_;
  Element* data_ = nullptr;
};

// One update by the kernel of that optimizer.
void LaunchUpdate(const runtime::UpdateFactors& factors, const runtime::UpdateBuffers& buffers);

}  // namespace lockstep::gpu
