#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::runtime {

// Memory of the host's for numbers, which knows how it is given back. What is in it at first is
// unspecified.
using HostFloats = std::unique_ptr<float[], std::function<void(float*)>>;

// Makes memory for so many; never null.
using HostAllocator = std::function<HostFloats(std::size_t count)>;

HostFloats OnHeap(std::size_t count);

}  // namespace lockstep::runtime
