#pragma once

#include <vector>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"

namespace lockstep {

// The signals that ask a program to end, as something to poll: SIGINT, SIGTERM, and SIGHUP
// unless whoever started the program ignores it. SIGPIPE is ignored, so that a closed reader is an
// error of write and nothing more.
class StopSignals {
 public:
  // Blocks the signals for this thread and those it starts later: call before any is started.
  // Errors: kIo, kResourceExhausted.
  static Result<StopSignals> Block();

  // Readable when one has come.
  int fd() const { return fd_.get(); }

  // The signals that came since the last call, without waiting.
  std::vector<int> Take();

 private:
  explicit StopSignals(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace lockstep
