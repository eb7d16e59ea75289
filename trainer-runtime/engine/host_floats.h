#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::runtime {

// Memory of the host's for numbers, which knows how it is given back. They are zero at first.
using HostFloats = std::unique_ptr<float[], std::function<void(float*)>>;

// Makes memory for so many; never null.
using HostAllocator = std::function<HostFloats(std::size_t count)>;

// Of many, the kernel gives pages when they are first written to: what is lent other memory before
// that costs nothing. Errors: throws std::bad_alloc, as a vector would.
HostFloats OnHeap(std::size_t count);

}  // namespace lockstep::runtime
