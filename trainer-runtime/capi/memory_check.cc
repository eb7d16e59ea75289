#include "trainer-runtime/capi/memory_check.h"

#include <cerrno>
#include <string>
#include <unistd.h>

#include <sys/uio.h>

namespace lockstep::runtime {
namespace {

// No memory is larger. Choice: what x86-64 addresses with four-level tables.
constexpr uint64_t kBytesMax = uint64_t{1} << 47;

// Asks the kernel, which answers with an error where a load would end the process. Where a sandbox
// does not let it answer, nothing is known to be wrong.
bool IsReadable(const std::byte* at) {
  std::byte copy{};
  const iovec to{&copy, 1};
  const iovec from{const_cast<std::byte*>(at), 1};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

}  // namespace

Status CheckMemory(const CallMemory& memory) {
  const std::string name = memory.name;
  const std::size_t size = DataTypeSize(memory.type);
  const auto blocks = static_cast<uint64_t>(memory.block_count);
  if (memory.count > kBytesMax / size / blocks) {
    return Error(ErrorCode::kInvalidArgument,
                 "count: " + std::to_string(memory.count) + " elements do not fit into memory");
  }
  const std::size_t bytes = memory.count * size * blocks;
  if (bytes == 0) {
    return OkStatus();
  }
  if (memory.data == nullptr) {
    return Error(ErrorCode::kInvalidArgument, name + " is null");
  }
  if (reinterpret_cast<uintptr_t>(memory.data) % size != 0) {
    return Error(ErrorCode::kInvalidArgument,
                 name + " is not aligned to the " + std::to_string(size) + " bytes of " +
                     DataTypeName(memory.type));
  }
  const auto* const first = static_cast<const std::byte*>(memory.data);
  if (!IsReadable(first) || !IsReadable(first + bytes - 1)) {
    return Error(ErrorCode::kInvalidArgument,
                 name + ": the CPU cannot read " + std::to_string(bytes) +
                     " bytes there; GPU memory is not supported");
  }
  return OkStatus();
}

}  // namespace lockstep::runtime
