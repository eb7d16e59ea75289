#pragma once

#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep {

// Whether a call on a non-blocking socket that failed with `error_number` is to be tried again.
bool WouldBlock(int error_number);

// Waits until poll(2) finds one of `events`, or an end or error, on `fd`.
// Errors: kTimeout (deadline passed, whatever is there: who waits for more bytes that trickle in
// does not wait for ever), kIo. Thread: any; blocks.
Status WaitForSocket(int fd, short events, Deadline deadline);

}  // namespace lockstep
