#include "trainer-runtime/session/descriptors.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <sys/resource.h>

namespace lockstep::runtime {
namespace {

// Of each peer: the control link, the data link, and its copy that an abort closes.
constexpr uint64_t kOfAPeer = 3;
constexpr uint64_t kOwnMin = 32;  // outputs, engine, listening sockets, a checkpoint's files
constexpr uint64_t kOwn = 256;    // and what a program of the user's opens besides. Choice.

}  // namespace

Result<uint64_t> DescriptorLimitFor(int world_size, uint64_t soft, uint64_t hard) {
  const uint64_t links = kOfAPeer * static_cast<uint64_t>(std::max(0, world_size - 1));
  if (hard < links + kOwnMin) {
    return Error(ErrorCode::kInvalidArgument,
                 std::to_string(world_size) + " ranks need " + std::to_string(links + kOwnMin) +
                     " file descriptors in each process, but this process may open at most " +
                     std::to_string(hard) + " (ulimit -Hn)");
  }
  return std::max(soft, std::min(hard, links + kOwn));
}

Status MakeRoomForLinks(int world_size) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return SystemError(errno, "read the limit of file descriptors");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t wanted,
                            DescriptorLimitFor(world_size, limit.rlim_cur, limit.rlim_max));
  if (wanted == limit.rlim_cur) {
    return OkStatus();
  }
  limit.rlim_cur = wanted;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0
             ? OkStatus()
             : SystemError(errno, "raise the limit of file descriptors");
}

}  // namespace lockstep::runtime
