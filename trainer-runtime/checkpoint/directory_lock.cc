#include "trainer-runtime/checkpoint/directory_lock.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <thread>
#include <utility>

#include <sys/file.h>

namespace lockstep::runtime {

Result<DirectoryLock> DirectoryLock::Acquire(const std::string& directory, Deadline deadline) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) {
    return SystemError(errno, "open folder " + directory);
  }
  // flock(2) knows no deadline. The lock is held for a few system calls, so asking again soon is
  // cheap and rare.
  constexpr std::chrono::milliseconds kAskAgain{2};
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return SystemError(errno, "lock folder " + directory);
    }
    if (deadline.HasPassed(SteadyNow())) {
      return Error(ErrorCode::kTimeout, directory + " is locked by another process");
    }
    std::this_thread::sleep_for(kAskAgain);
  }
  return DirectoryLock(std::move(fd));
}

}  // namespace lockstep::runtime
