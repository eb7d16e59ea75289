#include "tests/sim/work_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace lockstep::control::sim {
namespace {

thread_local int64_t bytes_taken = 0;

}  // namespace

int64_t BytesTaken() {
  return bytes_taken;
}

}  // namespace lockstep::control::sim

// The whole program's.
void* operator new(std::size_t size) {
  lockstep::control::sim::bytes_taken += static_cast<int64_t>(size);
  if (void* const memory = std::malloc(size)) {
    return memory;
  }
  throw std::bad_alloc();
}

void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  lockstep::control::sim::bytes_taken += static_cast<int64_t>(size);
  return std::malloc(size);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
