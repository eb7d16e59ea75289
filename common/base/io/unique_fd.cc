#include "common/base/io/unique_fd.h"

#include <unistd.h>

namespace lockstep {

void UniqueFd::Reset() noexcept {
  if (fd_ >= 0) {
    // close() is not retried on EINTR: on Linux the descriptor is gone either way.
    ::close(fd_);
    fd_ = -1;
  }
}

}  // namespace lockstep
