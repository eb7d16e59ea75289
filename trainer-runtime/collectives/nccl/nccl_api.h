#pragma once

#include <cstddef>

// The part of NCCL's C interface that is used, declared here: its header needs CUDA's, and neither
// is needed to build this program. Source: nccl.h of NCCL 2.14 (the first with non-blocking
// communicators) to 2.31; what is here has the same meaning and layout in all of them.

namespace lockstep::runtime::nccl {

struct Comm;           // ncclComm
using Result = int;    // ncclResult_t
using Stream = void*;  // cudaStream_t, which is the driver's CUstream

inline constexpr Result kSuccess = 0;
inline constexpr Result kUnhandledCudaError = 1;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInternalError = 3;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInvalidUsage = 5;
inline constexpr Result kRemoteError = 6;
inline constexpr Result kInProgress = 7;

inline constexpr int kFloat32 = 7;  // ncclDataType_t
inline constexpr int kFloat64 = 8;
inline constexpr int kSum = 0;  // ncclRedOp_t

struct UniqueId {  // ncclUniqueId, given by value
  char internal[128];
};

// ncclConfig_t as of 2.14: a newer library reads the version and as many bytes as `size` says, and
// takes its own defaults for what came later.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = 0;
};

static_assert(sizeof(Config) == 24);

}  // namespace lockstep::runtime::nccl
