#pragma once

#include <string>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// Exclusive use of a directory among processes, until destroyed. The system lets go when the
// holder dies, so a crash never leaves a lock behind.
class DirectoryLock {
 public:
  // Errors: kTimeout (held by somebody else until the deadline), kIo and its kin.
  static Result<DirectoryLock> Acquire(const std::string& directory, Deadline deadline);

 private:
  explicit DirectoryLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace lockstep::runtime
